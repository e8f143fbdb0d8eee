CREATE TABLE onceward.requests (
    service                text COLLATE "C" NOT NULL,
    tenant                 text COLLATE "C" NOT NULL,
    client                 text COLLATE "C" NOT NULL,
    operation              text COLLATE "C" NOT NULL,
    resource               text COLLATE "C" NOT NULL,
    key                    text COLLATE "C" NOT NULL,
    request_hash           bytea NOT NULL,   -- SHA-256 of the request
    status                 text NOT NULL CHECK (status IN ('STARTED', 'COMPLETED', 'FAILED_RETRYABLE', 'FAILED_TERMINAL', 'UNKNOWN')),
    attempt                bigint NOT NULL,  -- counts starts; only the latest may end the request
    external               boolean NOT NULL, -- the attempt has effects that a rollback does not undo
    holder                 text NOT NULL,    -- of the attempt, for people
    created_at             timestamptz NOT NULL DEFAULT now(), -- the first attempt
    started_at             timestamptz NOT NULL DEFAULT now(), -- the latest attempt
    locked_until           timestamptz,      -- of STARTED
    ended_at               timestamptz,
    expires_at             timestamptz,      -- until when the answer is stored; null where none is
    response_status        int,
    response_header_names  bytea[],
    response_header_values bytea[],
    response_body          bytea,
    PRIMARY KEY (service, tenant, client, operation, resource, key)
);

-- The condition holds for every row. It keeps the planner from using this index to look for one request: on a table without statistics it
-- would cost as much as the primary key.
CREATE INDEX requests_started_at ON onceward.requests (service, started_at) WHERE started_at IS NOT NULL;
CREATE INDEX requests_expires_at ON onceward.requests (service, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX requests_unknown ON onceward.requests (service, started_at) WHERE status = 'UNKNOWN';
CREATE INDEX requests_external ON onceward.requests (service, locked_until) WHERE status = 'STARTED' AND external;
