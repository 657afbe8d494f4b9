-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS hall (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name       TEXT NOT NULL,
    zone       TEXT NOT NULL,
    created_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS hall;
