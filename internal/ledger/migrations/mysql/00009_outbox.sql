-- +goose NO TRANSACTION
-- +goose Up
-- Events that wait to be published; the event itself is in order_event. id is
-- the event's: the time it was written and the node that wrote it, so that
-- rows come in about the order of their making and no node waits for another.
CREATE TABLE IF NOT EXISTS outbox (
    id       BIGINT NOT NULL PRIMARY KEY,
    order_no VARBINARY(26) NOT NULL,
    version  BIGINT NOT NULL DEFAULT 1
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS outbox;
