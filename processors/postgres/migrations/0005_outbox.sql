CREATE TABLE onceward.outbox (
    entry         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- within an aggregate in the order of the commits
    outbox        text COLLATE "C" NOT NULL,
    event_id      text COLLATE "C" NOT NULL,
    status        text COLLATE "C" NOT NULL DEFAULT 'PENDING', -- PENDING, PUBLISHED, QUARANTINED
    aggregate     text COLLATE "C", -- null: published in any order
    topic         text NOT NULL,
    record_key    bytea,
    record_value  bytea,
    header_keys   bytea[] NOT NULL,
    header_values bytea[] NOT NULL,
    appended_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts      int NOT NULL DEFAULT 0, -- that have failed
    retry_at      timestamptz,      -- null unless an attempt has failed
    class         text,             -- of the latest failure
    reason        text,             -- quotes nothing of the record
    decided_by    text,             -- who has published or quarantined it, for people
    published_at  timestamptz,
    partition     int,              -- where the record is: of copies the one that was answered last
    record_offset bigint
);

CREATE UNIQUE INDEX outbox_event_id ON onceward.outbox (outbox, event_id);
CREATE INDEX outbox_pending ON onceward.outbox (outbox, entry) WHERE status = 'PENDING';
CREATE INDEX outbox_order ON onceward.outbox (outbox, aggregate, entry) WHERE status = 'PENDING' AND aggregate IS NOT NULL;
CREATE INDEX outbox_failing ON onceward.outbox (outbox, aggregate, entry) WHERE status = 'PENDING' AND retry_at IS NOT NULL;
CREATE INDEX outbox_again ON onceward.outbox (outbox, retry_at) WHERE status = 'PENDING' AND retry_at IS NOT NULL;
CREATE INDEX outbox_published ON onceward.outbox (outbox, published_at) WHERE status = 'PUBLISHED';
