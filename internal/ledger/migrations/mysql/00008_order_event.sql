-- +goose NO TRANSACTION
-- +goose Up
-- Append-only. seats NULL: every seat of the order; actor_user and device
-- NULL: the order's own. The defaults are those of a new sale's first event.
CREATE TABLE IF NOT EXISTS order_event (
    order_no   VARBINARY(26) NOT NULL,
    version    BIGINT NOT NULL DEFAULT 1,
    id         BIGINT NOT NULL,
    type       VARBINARY(64) NOT NULL DEFAULT 'order.created',
    from_state VARBINARY(16) NOT NULL DEFAULT '',
    to_state   VARBINARY(16) NOT NULL DEFAULT 'pending',
    seats      MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin,
    actor_user VARBINARY(255),
    actor_role VARBINARY(32) NOT NULL,
    trace_id   VARBINARY(255),
    span_id    VARBINARY(255),
    device     VARBINARY(64),
    at         BIGINT NOT NULL,
    PRIMARY KEY (order_no, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS order_event;
