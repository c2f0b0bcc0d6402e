# The application: its program, its settings, and a service that restarts when one of them changes.
{% set book = pillar.guestbook %}
include:
  - .data

/opt/guestbook:
  file.directory:
    - user: root
    - group: root
    - mode: '0755'

/opt/guestbook/serve.py:
  file.managed:
    - source: salt://guestbook/serve.py
    - user: root
    - group: root
    - mode: '0644'

/etc/guestbook.json:
  file.managed:
    - contents: '{{ {"greeting": book.greeting, "port": book.port} | json }}'
    - user: root
    - group: guestbook
    - mode: '0640'

# A unit file and its service in one state, which also watches the unit file. Declare what the unit file uses: no
# automatic edge finds it.
guestbook:
  systemd_unit.running:
    - source: salt://guestbook/guestbook.service
    - require:
      - user: guestbook-account
      - file: /var/lib/guestbook
    - watch:
      - file: /opt/guestbook/serve.py
      - file: /etc/guestbook.json
