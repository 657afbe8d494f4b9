package verify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"seatflow"
)

// maxReport bounds the report that a server may send.
const maxReport = 16 << 20

// Remote has a running server verify itself, which reads the facts and the
// view in one place, and returns its report. show 0 checks every show; acked
// may be nil. The token must be an administrator's.
func Remote(ctx context.Context, client *http.Client, base, token string, show seatflow.ShowID, acked io.Reader) (Report, error) {
	url := strings.TrimSuffix(base, "/") + "/api/v1/admin/verify"
	if show != 0 {
		url += "?show=" + strconv.FormatInt(int64(show), 10)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, acked)
	if err != nil {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := client.Do(req)
	if err != nil {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return Report{}, fmt.Errorf("verify: read the report: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return Report{}, fmt.Errorf("verify: the server answered %s: %s", resp.Status, problem(body))
	}
	var r Report
	if err := json.Unmarshal(body, &r); err != nil {
		return Report{}, fmt.Errorf("verify: the report could not be read: %w", err)
	}
	return r, nil
}

// problem reads what a problem document says, or the start of the body.
func problem(body []byte) string {
	var p struct {
		Code   int    `json:"code"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &p) == nil && p.Title != "" {
		return fmt.Sprintf("%d %s %s", p.Code, p.Title, p.Detail)
	}
	return string(body[:min(len(body), 200)])
}
