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

// gatherAge is how long scrapes share what was gathered.
const gatherAge = 500 * time.Millisecond

// mostScrapes is how many are answered at a time on one listener.
const mostScrapes = 16

// scraper gathers for all who ask at about the same time, those of the process too, which the text
// file leaves to node_exporter's own. It keeps nothing for longer.
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

// gather returns what was gathered less than gatherAge ago.
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

// handler answers scrapes of one listener, in the text format alone, which every scraper takes.
func (s *scraper) handler() http.Handler {
	places := make(chan struct{}, mostScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, "as many scrapes as are answered at a time are under way; try again later", http.StatusServiceUnavailable)
			return
		}
		g, err := s.gather()
		if err != nil {
			http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", expositionType)
		if !takesGzip(request.Header) {
			_ = g.write(w) // its reader has gone
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_ = compressed(w, g)
	})
}

var compressors = sync.Pool{New: func() any {
	// The text is repetitive: the best speed leaves a twentieth of it.
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

// takesGzip says whether a client takes gzip (RFC 9110, section 12.5.3).
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
