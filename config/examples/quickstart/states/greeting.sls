# A script, and a command that runs it whenever the script has changed (onchanges).
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
    - onchanges:
      - file: {{ pillar.root }}/bin/greet
