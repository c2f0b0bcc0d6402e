# Data that differs from host to host.
guestbook:
  greeting: Leave a line.
  port: 8080
  backup:
    hour: 3
    keep: 7
