CREATE TABLE onceward.queue (
    entry         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- within an aggregate in the order of the commits
    queue         text COLLATE "C" NOT NULL,
    event_id      text COLLATE "C" NOT NULL,
    copy_of       bigint,           -- of duplicates and conflicts: the entry that came first under the id
    status        text COLLATE "C" NOT NULL,
    event_type    text NOT NULL,
    subject       text NOT NULL,
    aggregate     text COLLATE "C", -- null: processed in any order
    source        text NOT NULL,    -- for people
    payload_hash  bytea NOT NULL,
    payload       bytea,            -- null of duplicates, and when its retention is over
    header_keys   bytea[] NOT NULL,
    header_values bytea[] NOT NULL,
    received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at        timestamptz,      -- when the entry can be claimed, or its claim expires; null: not before something else has happened
    attempts      int NOT NULL DEFAULT 0,
    claims        int NOT NULL DEFAULT 0, -- counts claims; only the latest can settle
    claimed_by    text,
    claimed_at    timestamptz,
    class         text,             -- of the latest failure
    reason        text,             -- quotes nothing of the payload
    settled_at    timestamptz       -- null while something is left to do; QUARANTINED waits for a person
);

CREATE UNIQUE INDEX queue_event_id ON onceward.queue (queue, event_id) WHERE copy_of IS NULL;
CREATE INDEX queue_copies ON onceward.queue (queue, event_id) WHERE copy_of IS NOT NULL;
CREATE INDEX queue_due ON onceward.queue (queue, due_at, entry) WHERE due_at IS NOT NULL;
CREATE INDEX queue_order ON onceward.queue (queue, aggregate, entry) WHERE aggregate IS NOT NULL AND settled_at IS NULL;
CREATE INDEX queue_pending ON onceward.queue (queue, entry) WHERE settled_at IS NULL AND status <> 'QUARANTINED';
CREATE INDEX queue_quarantined ON onceward.queue (queue, entry) WHERE status = 'QUARANTINED';
CREATE INDEX queue_settled ON onceward.queue (queue, settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX queue_payloads ON onceward.queue (queue, settled_at) WHERE settled_at IS NOT NULL AND payload IS NOT NULL;

CREATE TABLE onceward.queue_decisions (
    entry      bigint NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claim      int NOT NULL, -- how many claims the entry had
    status     text COLLATE "C" NOT NULL,
    decided_by text NOT NULL,
    class      text,
    reason     text
);

CREATE INDEX queue_decisions_entry ON onceward.queue_decisions (entry, decided_at);
