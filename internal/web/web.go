// Package web serves SeatFlow's page: the shows, a show's house on a live
// seat plan, and the reader's own orders.
//
// # State model
//
// There is none. Pages and assets are embedded, rendered and compressed once,
// and served from memory; everything that changes comes to the page through
// the public API, like to any other client.
//
// Assets live under a folder named after the digest of all of them, so that a
// browser keeps them for good and a new build is a new folder; the modules'
// relative imports stay inside it. Pages are small and revalidated by ETag.
//
// # Failure
//
// A name that is not there is a plain 404. An asset asked for under the
// digest of another build (an old tab during a deployment) is answered with
// today's, uncached, so the tab keeps working and no cache keeps a mixture.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets/*.js assets/*.css assets/*.svg
var assetFiles embed.FS

//go:embed pages/*.html
var pageFiles embed.FS

// Policy is the content security policy that the page works under: nothing
// inline, nothing from anywhere else.
const Policy = "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"

// file is an answer, ready to send.
type file struct {
	body, zipped []byte
	kind         string
	etag         string
}

// site is everything there is to serve.
type site struct {
	digest string
	assets map[string]*file
	pages  map[string]*file
}

// page names what a page of the site is made of.
type page struct {
	Name    string
	Script  string
	Styles  []string
	Modules []string
	Assets  string
	Logo    template.HTML
}

var build = sync.OnceValues(func() (*site, error) {
	s := &site{assets: map[string]*file{}, pages: map[string]*file{}}
	names, err := fs.Glob(assetFiles, "assets/*")
	if err != nil {
		return nil, fmt.Errorf("web: list assets: %w", err)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		body, err := assetFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("web: read %s: %w", name, err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(body))
		sum.Write(body)
		s.assets[path.Base(name)] = newFile(body, kindOf(name))
	}
	s.digest = hex.EncodeToString(sum.Sum(nil))[:16]

	tmpl, err := template.ParseFS(pageFiles, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("web: parse pages: %w", err)
	}
	for _, p := range []page{
		{Name: "shows", Script: "shows.js"},
		{Name: "orders", Script: "orders.js"},
		{Name: "show", Script: "show.js", Styles: []string{"show.css"}},
	} {
		p.Assets = "/assets/" + s.digest
		p.Logo = template.HTML(bytes.TrimSpace(s.assets["logo.svg"].body)) // our own file
		p.Modules = s.imports(p.Script)
		var out bytes.Buffer
		if err := tmpl.ExecuteTemplate(&out, p.Name+".html", p); err != nil {
			return nil, fmt.Errorf("web: render %s: %w", p.Name, err)
		}
		s.pages[p.Name] = newFile(out.Bytes(), "text/html; charset=utf-8")
	}
	return s, nil
})

// imports lists the modules that a script needs, so that a page names them
// all at once and the browser need not discover them one after the other.
func (s *site) imports(script string) []string {
	var out []string
	seen := map[string]bool{script: true}
	for queue := []string{script}; len(queue) > 0; queue = queue[1:] {
		f := s.assets[queue[0]]
		if f == nil {
			continue
		}
		for line := range strings.Lines(string(f.body)) {
			_, rest, ok := strings.Cut(line, " from './")
			if !ok || (!strings.HasPrefix(line, "import ") && !strings.HasPrefix(line, "} from")) {
				continue
			}
			if name, _, ok := strings.Cut(rest, "'"); ok && !seen[name] {
				seen[name] = true
				out = append(out, name)
				queue = append(queue, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func newFile(body []byte, kind string) *file {
	sum := sha256.Sum256(body)
	f := &file{body: body, kind: kind, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return f
	}
	// Writes to a buffer do not fail.
	_, _ = w.Write(body)
	if w.Close() == nil && zipped.Len() < len(body)*9/10 {
		f.zipped = zipped.Bytes()
	}
	return f
}

func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

// Handler serves the pages at /, /shows/{id} and /orders, and /assets/.
func Handler() http.Handler {
	s, err := build()
	if err != nil {
		// Embedded files that do not parse are a broken build; every request
		// says so, and the package's tests catch it first.
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page("shows"))
	mux.HandleFunc("GET /orders", s.page("orders"))
	mux.HandleFunc("GET /shows/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id, err := strconv.ParseInt(r.PathValue("id"), 10, 64); err != nil || id < 1 {
			http.NotFound(w, r)
			return
		}
		s.page("show")(w, r)
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		s.assets["icon.svg"].serve(w, r, "public, max-age=86400")
	})
	mux.HandleFunc("GET /assets/{digest}/{name}", func(w http.ResponseWriter, r *http.Request) {
		f := s.assets[r.PathValue("name")]
		if f == nil {
			http.NotFound(w, r)
			return
		}
		cache := "no-cache"
		if r.PathValue("digest") == s.digest {
			cache = "public, max-age=31536000, immutable"
		}
		f.serve(w, r, cache)
	})
	return mux
}

func (s *site) page(name string) http.HandlerFunc {
	f := s.pages[name]
	return func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, "no-cache") }
}

// serve answers with the file, or 304 when the caller has it.
func (f *file) serve(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	body, etag := f.body, f.etag
	if f.zipped != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body = f.zipped
		etag = strings.TrimSuffix(f.etag, `"`) + `-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if known(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // a reader that has gone is no fault of ours
}

// known reports whether an If-None-Match list names the tag.
func known(list, etag string) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// acceptsGzip reads Accept-Encoding as far as gzip is concerned.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" || name == "*" {
			q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			return !ok || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
