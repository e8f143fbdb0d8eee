-- What the service has accepted.
CREATE TABLE IF NOT EXISTS payments (
    id       text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    account  text NOT NULL,
    cents    bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS steps (
    id       text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    payment  text NOT NULL REFERENCES payments,
    state    text NOT NULL -- the one to enter
);

-- The read model. The sink alone writes it.
CREATE TABLE IF NOT EXISTS payment_states (
    payment  text PRIMARY KEY,
    state    text NOT NULL,
    version  bigint NOT NULL -- how many steps have led there
);
CREATE TABLE IF NOT EXISTS refusals (
    step     text PRIMARY KEY,
    payment  text NOT NULL,
    state    text NOT NULL, -- the one that was not entered
    reason   text NOT NULL
);
CREATE INDEX IF NOT EXISTS refusals_payment ON refusals (payment);
CREATE TABLE IF NOT EXISTS balances (
    account  text PRIMARY KEY,
    cents    bigint NOT NULL,
    version  bigint NOT NULL -- how many contributions the balance has
);
