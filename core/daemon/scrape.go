// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"weir/core/engine"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// gatherAge limits how long scrapes share a reading.
const gatherAge = 500 * time.Millisecond

// maxScrapes is the maximum number of concurrent scrapes of a listener.
const maxScrapes = 16

// scraper shares one reading among concurrent scrapes, including the metrics of the process. The
// text file omits those, because node_exporter has its own.
type scraper struct {
	engine  *engine.Engine
	escapes escapes
	process *prometheus.Registry

	mu   sync.Mutex // guards the rest
	last *gathered
}

func newScraper(e *engine.Engine) *scraper {
	s := &scraper{engine: e, process: prometheus.NewRegistry()}
	s.process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// gather returns a reading of at most gatherAge.
func (s *scraper) gather() (*gathered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last, nil
	}
	g, err := gather(s.engine, &s.escapes)
	if err == nil {
		g.process, err = s.process.Gather()
	}
	if err != nil {
		return nil, err
	}
	s.last = g
	time.AfterFunc(gatherAge, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = nil
	})
	return g, nil
}

// handler answers scrapes of one listener in the text format, which every scraper accepts.
func (s *scraper) handler() http.Handler {
	places := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, "too many concurrent scrapes; try again later", http.StatusServiceUnavailable)
			return
		}
		g, err := s.gather()
		if err != nil {
			http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", expositionType)
		if !takesGzip(request.Header) {
			_ = g.write(w) // the client has closed
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_ = compressed(w, g)
	})
}

var compressors = sync.Pool{New: func() any {
	// The text is repetitive: the fastest level compresses it to a twentieth.
	c, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	return c
}}

func compressed(to io.Writer, g *gathered) error {
	c := compressors.Get().(*gzip.Writer)
	defer compressors.Put(c)
	c.Reset(to)
	if err := g.write(c); err != nil {
		return err
	}
	return c.Close()
}

// takesGzip reports whether a client accepts gzip (RFC 9110, section 12.5.3).
func takesGzip(header http.Header) bool {
	any := false
	for _, coding := range strings.Split(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		quality := 1.0
		if q, is := strings.CutPrefix(strings.TrimSpace(parameter), "q="); is {
			quality, _ = strconv.ParseFloat(q, 64)
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return quality > 0
		case "*":
			any = quality > 0
		}
	}
	return any
}
