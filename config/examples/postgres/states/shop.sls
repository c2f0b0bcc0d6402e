# A database with an owner, and a role for reports that may read everything in it.
shop_owner:
  postgres.role:
    - login: true
    - password: {{ pillar.shop_password | tojson }}

reporting:
  postgres.role:
    - connection_limit: 5
    - settings:
        statement_timeout: 5min

shop:
  postgres.database:
    - owner: {ref: shop_owner}
    - encoding: UTF8
    - template: template0

nobody else in shop:
  postgres.database_grant:
    - database: {ref: shop}
    - role: public
    - privileges: []

reports in shop:
  postgres.database_grant:
    - database: {ref: shop}
    - role: {ref: reporting}
    - privileges: [connect]

app:
  postgres.schema:
    - database: {ref: shop}
    - owner: {ref: shop_owner}

hstore:
  postgres.extension:
    - database: {ref: shop}
    - schema: {ref: app}

reports in app:
  postgres.grant:
    - schema: {ref: app}
    - role: {ref: reporting}
    - privileges: [usage]

reports read all tables:
  postgres.grant:
    - schema: {ref: app}
    - role: {ref: reporting}
    - objects: tables
    - privileges: [select]
