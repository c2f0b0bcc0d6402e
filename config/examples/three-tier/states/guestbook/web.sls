# The front end: nginx, which forwards all requests.
{% set book = pillar.guestbook %}

nginx:
  pkg.installed:
    - name: {{ 'nginx-light' if grains.os_family == 'Debian' else 'nginx' }}
  service.running:
    - enable: true
    - reload: true
    - watch:
      - file: /etc/nginx/sites-available/guestbook
      - file: /etc/nginx/sites-enabled/default

# A site that nginx refuses is never installed: check_cmd gets the new file, under a temporary name, as its last
# argument.
/etc/nginx/sites-available/guestbook:
  file.managed:
    - source: salt://guestbook/site.conf
    - template: jinja
    - context:
        port: {{ book.port }}
    - user: root
    - group: root
    - mode: '0644'
    - require:
      - pkg: nginx
    - check_cmd: >-
        sh -ec 'conf=$(mktemp); trap "rm -f $conf $conf.pid" EXIT;
        echo "error_log stderr; pid $conf.pid; events {} http { include $1; }" >$conf; nginx -t -q -c $conf' check

/etc/nginx/sites-enabled/default:
  file.symlink:
    - target: /etc/nginx/sites-available/guestbook
    - force: true
    - require:
      - file: /etc/nginx/sites-available/guestbook

# Connections that may wait to be accepted.
net.core.somaxconn:
  sysctl.present:
    - value: 1024
