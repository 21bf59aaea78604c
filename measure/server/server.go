// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/measure/admission"
	"weir/measure/latency"
	"weir/measure/msak"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/socket"
)

// Server is a site. Make it with [Listen]; it is safe for concurrent use.
type Server struct {
	config         Config
	gate           *admission.Gate
	sampler        socket.Sampler
	metrics        *metrics
	clear, secure  net.Listener // nil if the site has none
	metricsAddress net.Listener // nil if the site has none
	udp            *net.UDPConn // of latency tests; nil if the site has none
	latency        *latency.Sessions
	latencyGate    *admission.Gate
	tests          context.Context
	endTests       context.CancelFunc
}

// Listen opens the listeners of a site and serves nothing yet.
func Listen(c Config) (*Server, error) {
	switch {
	case c.Store == nil || c.Log == nil:
		return nil, errors.New("a site needs a store and a log")
	case c.MaxTests < 1:
		return nil, fault.New(fault.Usage, "write --max-tests 50", "--max-tests %d: a site runs at least one test", c.MaxTests)
	case c.Secure != "" && c.Certificate == nil:
		return nil, fault.New(fault.Usage, "add --cert and --key, or --self-signed for a lab", "--tls-listen %s needs a certificate", c.Secure)
	case c.Clear == "" && c.Secure == "":
		return nil, fault.New(fault.Usage, "add --listen :80", "the site has no address for tests")
	}
	s := &Server{config: c, gate: admission.New(c.MaxTests), metrics: newMetrics(c.MaxTests)}
	s.tests, s.endTests = context.WithCancel(context.Background())
	open := newConnections(blockConnections(c.MaxTests), allConnections(c.MaxTests))
	for _, l := range []struct {
		flag, address string
		config        *tls.Config
		to            *net.Listener
	}{
		{"--listen", c.Clear, nil, &s.clear},
		{"--tls-listen", c.Secure, tlsConfig(c), &s.secure},
	} {
		if l.address == "" {
			continue
		}
		tcp, err := listen(l.flag, l.address)
		if err != nil {
			s.closeListeners()
			return nil, err
		}
		*l.to = &listener{TCPListener: tcp, connections: open, config: l.config}
	}
	if c.Latency != "" {
		if err := s.openLatency(); err != nil {
			s.closeListeners()
			return nil, err
		}
	}
	if c.Metrics != "" {
		tcp, err := listen("--metrics", c.Metrics)
		if err != nil {
			s.closeListeners()
			return nil, err
		}
		s.metricsAddress = tcp
	}
	return s, nil
}

// blockConnections is the maximum of open connections of a client block: beyond the tests, it may
// have some in handshakes and for other requests.
func blockConnections(maxTests int) int { return 2*maxTests + 64 }

// allConnections is the maximum of open connections of all clients: the limit of open files without
// spareFiles, and at least that of one client block.
func allConnections(maxTests int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt
	}
	return max(int(min(limit.Cur, math.MaxInt32))-spareFiles, blockConnections(maxTests))
}

func tlsConfig(c Config) *tls.Config {
	if c.Certificate == nil {
		return nil
	}
	return c.Certificate.config()
}

func listen(flag, address string) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // TCP_INFO of a multipath connection is that of its first subflow
	l, err := config.Listen(context.Background(), "tcp", address)
	if err == nil {
		return l.(*net.TCPListener), nil
	}
	return nil, listenError(err, flag, address)
}

func listenUDP(flag, address string) (*net.UDPConn, error) {
	c, err := net.ListenPacket("udp", address)
	if err == nil {
		return c.(*net.UDPConn), nil
	}
	return nil, listenError(err, flag, address)
}

func listenError(err error, flag, address string) error {
	status, try := fault.Failed, "stop the other process, or name another address with "+flag
	if errors.Is(err, os.ErrPermission) {
		status, try = fault.Permission, "give the process CAP_NET_BIND_SERVICE, or name a port from 1024 on with "+flag
	}
	var wrong *net.AddrError
	var unknown *net.DNSError
	if errors.As(err, &wrong) || errors.As(err, &unknown) {
		status, try = fault.Usage, "write an address and a port, as in "+flag+" :8080"
	}
	return fault.New(status, try, "%s %s: %w", flag, address, err)
}

func (s *Server) closeListeners() {
	for _, l := range []net.Listener{s.clear, s.secure, s.metricsAddress} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.udp != nil {
		_ = s.udp.Close()
	}
}

// ClearAddr returns the address of clear tests, also for port 0.
func (s *Server) ClearAddr() netip.AddrPort { return addrOf(s.clear) }

// SecureAddr returns the address of tests over TLS.
func (s *Server) SecureAddr() netip.AddrPort { return addrOf(s.secure) }

// MetricsAddr returns the address of the metrics.
func (s *Server) MetricsAddr() netip.AddrPort { return addrOf(s.metricsAddress) }

// LatencyAddr returns the UDP address of latency tests.
func (s *Server) LatencyAddr() netip.AddrPort {
	if s.udp == nil {
		return netip.AddrPort{}
	}
	return s.udp.LocalAddr().(*net.UDPAddr).AddrPort()
}

func addrOf(l net.Listener) netip.AddrPort {
	if l == nil {
		return netip.AddrPort{}
	}
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Run serves until ctx ends. Then it drains: it refuses new tests, answers /health with 503, and
// returns after the running tests have ended and their records are stored.
func (s *Server) Run(ctx context.Context) error {
	site := s.newHTTP(s.handler())
	if c := s.config.Certificate; c != nil && c.acme != nil {
		site.Handler = c.acme.HTTPHandler(site.Handler) // answers http-01
		obtaining, cancel := context.WithCancel(ctx)
		defer cancel()
		go c.obtain(obtaining, func(err error) {
			if err != nil {
				s.config.Log.Error("no certificate yet", "host", c.host, "reason", err)
			} else {
				s.config.Log.Info("the certificate is ready", "host", c.host)
			}
		})
	}
	var inner *http.Server
	all, stopped := errgroup.WithContext(ctx)
	for _, l := range []net.Listener{s.clear, s.secure} {
		if l != nil {
			all.Go(func() error { return served(site.Serve(l)) })
		}
	}
	if s.metricsAddress != nil {
		inner = s.newHTTP(s.inside())
		all.Go(func() error { return served(inner.Serve(s.metricsAddress)) })
	}
	if s.latency != nil {
		all.Go(s.latency.Run)
	}
	all.Go(func() error {
		<-stopped.Done()
		s.drain()
		s.end(site)
		if s.latency != nil {
			_ = s.latency.Close()
		}
		if inner != nil {
			_ = inner.Close()
		}
		return nil
	})
	err := all.Wait()
	s.endTests()
	return err
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: handshakeTime, ReadTimeout: handshakeTime, WriteTimeout: cmp.Or(s.config.answerTime, idleTime), IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
		ErrorLog:    log.New(httpLog{log: s.config.Log}, "", 0),
	}
}

// handler serves clients.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(ndt7.DownloadPath, s.runTest(protocolNDT7, record.Download))
	mux.HandleFunc(ndt7.UploadPath, s.runTest(protocolNDT7, record.Upload))
	mux.HandleFunc(msak.DownloadPath, s.runTest(protocolMSAK, record.Download))
	mux.HandleFunc(msak.UploadPath, s.runTest(protocolMSAK, record.Upload))
	mux.HandleFunc("GET /v2/nearest/ndt/ndt7", s.nearest(s.gate, bulkSchemes, ndt7.DownloadPath, ndt7.UploadPath))
	mux.HandleFunc("GET /v2/nearest/msak/throughput1", s.nearest(s.gate, bulkSchemes, msak.DownloadPath, msak.UploadPath))
	if s.latency != nil {
		for _, method := range []string{"GET ", "POST "} {
			mux.HandleFunc(method+latency.AuthorizePath, s.authorize)
		}
		mux.HandleFunc("GET "+latency.ResultPath, s.result)
		mux.HandleFunc("GET /v2/nearest/msak/latency1", s.nearest(s.latencyGate, httpSchemes, latency.AuthorizePath, latency.ResultPath))
	}
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		newProblem(http.StatusNotFound, "There is no such page", "this server has "+strings.Join([]string{ndt7.DownloadPath, ndt7.UploadPath, msak.DownloadPath, msak.UploadPath}, ", ")+", /v2/nearest and /health").write(w)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Pages of any origin may run tests and read the reason of a rejection.
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
		mux.ServeHTTP(w, r)
	})
}

// inside serves the operator.
func (s *Server) inside() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /health", s.health)
	return mux
}

// health answers 200 if a new client's test would start now, else 503 with the reason.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if rejection := s.check(s.gate, netip.Addr{}); rejection != nil {
		w.Header().Set("Retry-After", fmt.Sprint(int(rejection.RetryAfter.Seconds())))
		newProblem(http.StatusServiceUnavailable, "The server runs no new tests", rejection.Detail).write(w)
		return
	}
	tests, blocks, _ := s.gate.Running()
	writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "tests": tests, "client_blocks": blocks, "max_tests": s.config.MaxTests})
}

// acceptTime returns the time of the connection's accept.
func acceptTime(conn net.Conn) time.Time {
	for {
		if a, is := conn.(*accepted); is {
			return a.at
		}
		nested, is := conn.(interface{ NetConn() net.Conn })
		if !is {
			return time.Now()
		}
		conn = nested.NetConn()
	}
}
