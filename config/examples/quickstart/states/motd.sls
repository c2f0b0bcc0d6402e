# One file with its directory. Edit or delete the file while the agent runs: the agent restores it.
{{ pillar.root }}:
  file.directory:
    - mode: '0755'

{{ pillar.root }}/motd:
  file.managed:
    - mode: '0644'
    - contents: |
        Welcome to {{ grains.nodename }}, a {{ grains.osfullname }} machine with {{ grains.num_cpus }} CPUs.
        Holdfast keeps this file as it is.
