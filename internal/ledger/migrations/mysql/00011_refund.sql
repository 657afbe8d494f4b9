-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS refund (
    id         VARBINARY(255) NOT NULL PRIMARY KEY,
    provider   VARBINARY(255) NOT NULL,
    capture_id VARBINARY(255) NOT NULL,
    order_no   VARBINARY(26) NOT NULL,
    amount     BIGINT NOT NULL,
    currency   VARBINARY(16) NOT NULL,
    reason     VARBINARY(64) NOT NULL,
    done       TINYINT NOT NULL,
    created_at BIGINT NOT NULL,
    done_at    BIGINT NOT NULL,
    KEY ix_refund_capture (provider, capture_id),
    KEY ix_refund_due (done, created_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS refund;
