-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS payment (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    provider   VARBINARY(255) NOT NULL,
    event_id   VARBINARY(255) NOT NULL,
    capture_id VARBINARY(255), -- NULL unless captured
    type       VARBINARY(64) NOT NULL,
    order_no   VARBINARY(255) NOT NULL, -- as the provider says: it may be no order's
    amount     BIGINT NOT NULL,
    currency   VARBINARY(16) NOT NULL,
    event_at   BIGINT NOT NULL, -- as the provider says
    ending     VARBINARY(32) NOT NULL,
    refund_id  VARBINARY(255), -- of the ending refund
    created_at BIGINT NOT NULL,
    UNIQUE KEY uk_payment_provider_event (provider, event_id),
    UNIQUE KEY uk_payment_provider_capture (provider, capture_id),
    KEY ix_payment_order (order_no),
    KEY ix_payment_ending (ending, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS payment;
