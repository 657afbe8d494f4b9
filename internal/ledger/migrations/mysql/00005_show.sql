-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS `show` (
    id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    hall_id        BIGINT NOT NULL,
    plan_version   BIGINT NOT NULL,
    title          TEXT NOT NULL,
    starts         BIGINT NOT NULL,
    ends           BIGINT NOT NULL,
    sale_from      BIGINT NOT NULL,
    sale_until     BIGINT NOT NULL,
    currency       VARBINARY(16) NOT NULL,
    prices         MEDIUMTEXT NOT NULL, -- JSON: category name -> minor units
    limit_per_user BIGINT NOT NULL,
    hold_for       BIGINT NOT NULL,     -- microseconds
    hold_cap       BIGINT NOT NULL,     -- microseconds
    extend_by      BIGINT NOT NULL,     -- microseconds
    status         VARBINARY(32) NOT NULL,
    partition_no   INT NOT NULL,
    generation     BIGINT NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    KEY ix_show_starts (starts, id),
    CONSTRAINT fk_show_plan FOREIGN KEY (hall_id, plan_version) REFERENCES seat_plan (hall_id, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS `show`;
