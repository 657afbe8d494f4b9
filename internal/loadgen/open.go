package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// OpenShows makes a hall with a plan (a document in the exchange format) and
// opens shows in it that are on sale now, with a price for every category and
// no purchase limit, so that a load meets nothing but the seats. The token
// must be an administrator's.
func OpenShows(ctx context.Context, client *Client, token, name string, plan []byte, shows int) ([]seatflow.ShowID, error) {
	var doc struct {
		Categories []struct {
			Name string `json:"name"`
		} `json:"categories"`
	}
	if err := json.Unmarshal(plan, &doc); err != nil {
		return nil, fmt.Errorf("loadgen: the plan could not be read: %w", err)
	}
	if len(doc.Categories) == 0 || shows < 1 {
		return nil, errors.New("loadgen: a plan needs categories, and a load at least one show")
	}
	prices := map[string]int64{}
	for i, c := range doc.Categories {
		prices[c.Name] = int64(i+1) * 1000
	}
	var hall struct {
		ID seatflow.HallID `json:"id"`
	}
	body := map[string]any{"name": name, "zone": "UTC"}
	if _, err := client.call(ctx, http.MethodPost, "/api/v1/admin/halls", token, body, &hall); err != nil {
		return nil, fmt.Errorf("loadgen: make a hall: %w", err)
	}
	path := "/api/v1/admin/halls/" + strconv.FormatInt(int64(hall.ID), 10) + "/plans"
	if _, err := client.call(ctx, http.MethodPost, path, token, plan, nil); err != nil {
		return nil, fmt.Errorf("loadgen: publish the plan: %w", err)
	}
	starts := time.Now().UTC().Add(24 * time.Hour).Truncate(time.Minute)
	ids := make([]seatflow.ShowID, shows)
	for i := range ids {
		var made apiShow
		body := map[string]any{
			"hallId": hall.ID, "title": fmt.Sprintf("%s %d", name, i+1), "starts": starts, "ends": starts.Add(2 * time.Hour),
			"currency": "EUR", "prices": prices, "limitPerUser": 0,
		}
		if _, err := client.call(ctx, http.MethodPost, "/api/v1/admin/shows", token, body, &made); err != nil {
			return nil, fmt.Errorf("loadgen: open a show: %w", err)
		}
		ids[i] = made.ID
	}
	return ids, nil
}
