-- +goose NO TRANSACTION
-- +goose Up
-- How far reconcilers have come over the shows: one row, of id 1.
CREATE TABLE IF NOT EXISTS reconcile_rotation (
    id         BIGINT NOT NULL PRIMARY KEY,
    after_show BIGINT NOT NULL,
    began      BIGINT NOT NULL,
    lap_before BIGINT NOT NULL,
    version    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS reconcile_rotation;
