-- +goose NO TRANSACTION
-- +goose Up
INSERT IGNORE INTO reconcile_rotation (id, after_show, began, lap_before, version) VALUES (1, 0, 0, 0, 0);

-- +goose Down
DELETE FROM reconcile_rotation;
