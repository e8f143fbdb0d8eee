CREATE TABLE onceward.sink_offsets (
    sink        text COLLATE "C" NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    partition   int NOT NULL,
    topic_id    uuid NOT NULL,   -- the topic that the offset is of: one that is created again has another id
    next_offset bigint NOT NULL, -- where to read next: everything before it was applied or refused
    leader_epoch int NOT NULL DEFAULT -1, -- of what is before it: a log that was cut there is noticed; -1 is not known
    generation  bigint NOT NULL, -- counts owners; only the latest may move the offset
    owner       text NOT NULL,   -- for people
    claimed_at  timestamptz NOT NULL DEFAULT now(),
    moved_at    timestamptz,
    PRIMARY KEY (sink, topic, partition)
) WITH (fillfactor = 50); -- every batch updates a row, in its page if there is room

CREATE TABLE onceward.sink_quarantine (
    sink           text COLLATE "C" NOT NULL,
    topic          text COLLATE "C" NOT NULL,
    partition      int NOT NULL,
    record_offset  bigint NOT NULL,
    topic_id       uuid NOT NULL,
    letter_topic   text,            -- the dead-letter topic that the row is to be sent to, and leaves the table for; null: it stays
    record_time    bigint NOT NULL, -- milliseconds since the epoch
    time_type      smallint NOT NULL, -- 0 of the producer, 1 of the broker
    record_key     bytea,
    record_value   bytea,
    header_keys    bytea[] NOT NULL,
    header_values  bytea[] NOT NULL,
    class          text NOT NULL,
    reason         text NOT NULL, -- quotes nothing of the record
    attempts       int NOT NULL,
    first_failure  timestamptz NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, topic, partition, record_offset, topic_id)
);
