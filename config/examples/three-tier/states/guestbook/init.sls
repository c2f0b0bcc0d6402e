# A guest book in three tiers on one host: nginx in front, an application of its own user behind it, its data and their backup below.
# Copy states/ and pillar/ into /etc/holdfast/.
include:
  - .app
  - .web
