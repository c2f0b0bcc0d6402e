# What the chaos test keeps besides the example: more kinds of things, and somebody who must be told of each change.
include:
  - guestbook

/srv/chaos/deep:
  file.directory:
    - makedirs: true
    - mode: '0755'

/srv/chaos/deep/er/leaf:
  file.managed:
    - makedirs: true
    - contents: a leaf

# Large enough to be caught half written.
/srv/chaos/large:
  file.managed:
    - source: salt://large
    - mode: '0644'

/srv/chaos/link:
  file.symlink:
    - target: large
    - force: true

/srv/chaos/lines:
  file.append:
    - text:
        - one
        - two

# On a disk that is full now and then.
/srv/small/file:
  file.managed:
    - source: salt://large
    - retry: -1

tiny:
  pkg.installed: []

visitor:
  user.present:
    - home: /srv/visitor
    - shell: /bin/sh
    - fullname: A Visitor
    - password: '$5$salt$eC8iHMk0B/acxRGi4idWiCK/.xXHLUsxovn4V591t3.'
  group.present:
    - name: crew
    - members:
        - visitor

# In the vendor's directory, where it can be masked.
sleeper:
  file.managed:
    - name: /usr/lib/systemd/system/sleeper.service
    - contents: |
        [Service]
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=multi-user.target
  service.running:
    - enable: true
    - unmask: true
    - watch:
      - file: sleeper

net.ipv4.ip_default_ttl:
  sysctl.present:
    - value: 61
    - config: /etc/sysctl.d/50-chaos.conf

told:
  cmd.wait:
    - name: date +%s.%N >>/srv/told
    - watch:
      - file: /srv/chaos/large
      - file: /etc/guestbook.json
