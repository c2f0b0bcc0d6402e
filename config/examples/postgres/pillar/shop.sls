# Give this file the mode 0600. A verifier of the password, SCRAM-SHA-256$..., works as well.
shop_password: change me
