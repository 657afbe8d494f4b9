package web_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"seatflow/internal/web"
)

// requireBackend returns the path of a program that a test cannot do without.
// On a machine that lacks it the test is skipped, unless nothing may be.
func requireBackend(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("SEATFLOW_REQUIRE_BACKENDS") == "1" {
		t.Fatalf("none of %v is installed, and SEATFLOW_REQUIRE_BACKENDS=1 forbids to skip", names)
	}
	t.Skipf("none of %v is installed; set SEATFLOW_REQUIRE_BACKENDS=1 to make this a failure", names)
	return ""
}

func get(t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	web.Handler().ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPagesAndTheirAssets(t *testing.T) {
	links := regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)
	for _, path := range []string{"/", "/orders", "/shows/1"} {
		res := get(t, path)
		html := body(t, res)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Fatalf("%s: status %d, type %q", path, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if got := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self'") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", path, got)
		}
		found := links.FindAllStringSubmatch(html, -1)
		if len(found) < 4 {
			t.Fatalf("%s: only %d assets", path, len(found))
		}
		for _, m := range found {
			asset := get(t, m[1])
			if asset.StatusCode != http.StatusOK {
				t.Errorf("%s: %s answers %d", path, m[1], asset.StatusCode)
			}
			if got := asset.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
				t.Errorf("%s: Cache-Control %q", m[1], got)
			}
		}
	}
}

// TestNothingInline: what the policy would block must not be there.
func TestNothingInline(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|https?://`)
	for _, path := range []string{"/", "/orders", "/shows/1"} {
		html := strings.ReplaceAll(body(t, get(t, path)), "http://www.w3.org/2000/svg", "")
		if m := inline.FindString(html); m != "" {
			t.Errorf("%s contains %q", path, m)
		}
	}
	for _, bad := range []string{`<p style="x">`, `<script>x`, `<a onclick="x">`, `<style>`} {
		if !inline.MatchString(bad) {
			t.Errorf("the check does not see %s", bad)
		}
	}
}

func TestModulesImportOnlyWhatIsThere(t *testing.T) {
	digest := regexp.MustCompile(`/assets/([0-9a-f]{16})/`).FindStringSubmatch(body(t, get(t, "/")))[1]
	imports := regexp.MustCompile(`from '([^']+)'`)
	seen := map[string]bool{}
	queue := []string{"shows.js", "show.js", "orders.js"}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		res := get(t, "/assets/"+digest+"/"+name)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Fatalf("%s: status %d, type %q", name, res.StatusCode, res.Header.Get("Content-Type"))
		}
		source := body(t, res)
		if lines := strings.Count(source, "\n"); lines >= 400 && name != "words.js" {
			t.Errorf("%s has %d lines; split it", name, lines)
		}
		for _, m := range imports.FindAllStringSubmatch(source, -1) {
			next, ok := strings.CutPrefix(m[1], "./")
			if !ok {
				t.Fatalf("%s imports %s", name, m[1])
			}
			queue = append(queue, next)
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d modules", len(seen))
	}
}

func TestNotThere(t *testing.T) {
	for _, path := range []string{"/nothing", "/shows/0", "/shows/x", "/shows/1/2", "/shows/99999999999999999999", "/assets/x/none.js", "/assets/", "/assets/x/../web.go"} {
		if res := get(t, path); res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMovedPermanently && res.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s answers %d", path, res.StatusCode)
		}
	}
	rec := httptest.NewRecorder()
	web.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST / answers %d", rec.Code)
	}
}

func TestCaching(t *testing.T) {
	first := get(t, "/")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("ETag %q, Cache-Control %q", tag, first.Header.Get("Cache-Control"))
	}
	for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"other"`: 200, "": 200} {
		res := get(t, "/", "If-None-Match", header)
		if res.StatusCode != want {
			t.Errorf("If-None-Match %s answers %d, want %d", header, res.StatusCode, want)
		}
		if res.StatusCode == 304 && body(t, res) != "" {
			t.Error("a 304 has a body")
		}
	}
	// Another build's folder serves today's file, but nobody may keep it.
	if res := get(t, "/assets/0123456789abcdef/show.js"); res.StatusCode != 200 || res.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("old digest: %d, %q", res.StatusCode, res.Header.Get("Cache-Control"))
	}
}

func TestCompression(t *testing.T) {
	plain := get(t, "/shows/1", "Accept-Encoding", "br, gzip;q=0")
	zipped := get(t, "/shows/1", "Accept-Encoding", "br, gzip;q=0.5")
	if plain.Header.Get("Content-Encoding") != "" || zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings %q and %q", plain.Header.Get("Content-Encoding"), zipped.Header.Get("Content-Encoding"))
	}
	if plain.Header.Get("ETag") == zipped.Header.Get("ETag") {
		t.Error("both forms have one tag")
	}
	r, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if string(unzipped) != body(t, plain) {
		t.Error("the forms differ")
	}
}

// TestModules runs the tests of the page's pure modules: the map store, the
// dictionaries, formats, geometry, buying and its retries.
func TestModules(t *testing.T) {
	node := requireBackend(t, "node", "nodejs")
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "unit/")
	cmd.Dir = "../../test/browser"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
}
