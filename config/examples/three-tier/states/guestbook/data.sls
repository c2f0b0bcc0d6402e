# The data: the user who owns it, its directory, and a backup each night.
{% set book = pillar.guestbook %}

guestbook-account:
  group.present:
    - name: guestbook
    - system: true
  user.present:
    - name: guestbook
    - gid: guestbook
    - system: true
    - home: /var/lib/guestbook
    - createhome: false
    - shell: /usr/sbin/nologin
    - groups: []

/var/lib/guestbook:
  file.directory:
    - user: guestbook
    - group: guestbook
    - mode: '0750'

/var/backups/guestbook:
  file.directory:
    - user: guestbook
    - group: guestbook
    - mode: '0700'

/usr/local/bin/guestbook-backup:
  file.managed:
    - source: salt://guestbook/backup.sh
    - template: jinja
    - context:
        keep: {{ book.backup.keep }}
    - user: root
    - group: root
    - mode: '0755'

cron:
  pkg.installed: []
  service.running:
    - enable: true

# The minute is chosen at random, but always the same for one host, so that a fleet does not back up all at once.
guestbook-backup:
  cron.present:
    - name: /usr/local/bin/guestbook-backup
    - identifier: guestbook-backup
    - user: guestbook
    - minute: random
    - hour: {{ book.backup.hour }}
    - require:
      - pkg: cron
