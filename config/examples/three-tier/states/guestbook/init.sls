# A guest book in three tiers on one host: nginx, an application with a user of its own, its data with a backup.
# Copy states/ and pillar/ into /etc/holdfast/.
include:
  - .app
  - .web
