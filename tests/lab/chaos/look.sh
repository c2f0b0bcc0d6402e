# Print what must be as it was, one item a line, independently of the agent's reports.
for path in /etc/guestbook.json /opt/guestbook /opt/guestbook/serve.py /var/lib/guestbook /var/backups/guestbook \
    /usr/local/bin/guestbook-backup /etc/systemd/system/guestbook.service /etc/nginx/sites-available/guestbook \
    /etc/nginx/sites-enabled/default /srv/chaos/deep /srv/chaos/deep/er/leaf /srv/chaos/large /srv/chaos/link \
    /srv/small/file /usr/lib/systemd/system/sleeper.service /etc/sysctl.d/99-holdfast.conf \
    /etc/sysctl.d/50-chaos.conf; do
  stat -c '%n %F %a %U:%G %N' "$path"
  # do not wait for a writer if the path is a fifo at this moment
  [ -d "$path" ] || dd if="$path" iflag=nonblock bs=64k status=none | sha256sum
done 2>&1
for line in one two; do grep -cx "$line" /srv/chaos/lines; done 2>&1
for unit in nginx guestbook cron sleeper; do
  reload=$(systemctl show -P NeedDaemonReload "$unit")
  echo "$unit $(systemctl is-active "$unit") $(systemctl is-enabled "$unit") $reload"
done 2>&1
dpkg-query -W -f '${Package} ${db:Status-Status} ${db:Status-Want}\n' nginx-light tiny cron 2>&1
getent passwd guestbook visitor; getent shadow visitor | cut -d: -f2
getent group crew guestbook; id -Gn guestbook; id -Gn visitor
crontab -u guestbook -l 2>&1
cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_default_ttl
# Settings of the running service, and the page of the front server: they lag behind the files only if a restart or
# reload was lost.
curl -s -m 3 http://127.0.0.1/settings || echo "no answer"
