package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes lines of a format (text or json) and
// of at least a level (debug, info, warn, error) to w. Lines logged with a
// context that carries a trace (see [WithTrace]) name it.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("telemetry: log level %q: %w", level, err)
	}
	o := &slog.HandlerOptions{Level: least}
	var h slog.Handler
	switch format {
	case "text":
		h = slog.NewTextHandler(w, o)
	case "json":
		h = slog.NewJSONHandler(w, o)
	default:
		return nil, fmt.Errorf("telemetry: log format %q is neither text nor json", format)
	}
	return slog.New(traced{h}), nil
}

// traced adds the context's trace to every record.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if traceID, spanID := TraceOf(ctx); traceID != "" {
		r.AddAttrs(slog.String("trace_id", traceID), slog.String("span_id", spanID))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }
