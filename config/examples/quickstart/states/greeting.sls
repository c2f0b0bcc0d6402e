# A script, and a command that runs it: when what it made is missing or old (unless), and when the script was changed (watch).
include:
  - motd

{{ pillar.root }}/bin/greet:
  file.managed:
    - source: salt://greet.sh
    - mode: '0755'
    - makedirs: true

greeting:
  cmd.run:
    - name: {{ pillar.root }}/bin/greet > {{ pillar.root }}/greeting
    - unless: test {{ pillar.root }}/greeting -nt {{ pillar.root }}/bin/greet
    - watch:
      - file: {{ pillar.root }}/bin/greet
