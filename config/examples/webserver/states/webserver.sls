# A web server: package, site, page, service. Copy webserver.sls and webserver/ into the states directory.
{% set package = 'nginx-light' if grains.os_family == 'Debian' else 'nginx' %}

nginx:
  pkg.installed:
    - name: {{ package }}
  service.running:
    - enable: true
    - reload: true
    - require:
      - pkg: nginx
    - watch:
      - file: /etc/nginx/sites-available/default
      - file: /etc/nginx/sites-enabled/default

/srv/www:
  file.directory:
    - user: root
    - group: root
    - mode: '0755'

/srv/www/index.html:
  file.managed:
    - source: salt://webserver/index.html
    - template: jinja
    - user: root
    - group: root
    - mode: '0644'

# A site that nginx refuses is never installed: check_cmd gets the new file, under a temporary name, as its last
# argument.
/etc/nginx/sites-available/default:
  file.managed:
    - source: salt://webserver/site.conf
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
    - target: /etc/nginx/sites-available/default
    - require:
      - file: /etc/nginx/sites-available/default
