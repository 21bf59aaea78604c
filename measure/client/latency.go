// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/measure/latency"
	"weir/measure/record"
	"weir/measure/websocket"
)

// runLatency runs a latency test.
func (o Options) runLatency(ctx context.Context) (Result, error) {
	tcp, err := dialer(o.Bind)
	if err != nil {
		return Result{}, err
	}
	datagrams := *tcp
	if local, is := tcp.LocalAddr.(*net.TCPAddr); is {
		datagrams.LocalAddr = &net.UDPAddr{IP: local.IP, Zone: local.Zone}
	}
	port := o.LatencyPort
	if port == 0 {
		port = latency.DefaultPort
	}
	udp, err := datagrams.DialContext(ctx, "udp", netip.AddrPortFrom(o.Address.Addr(), port).String())
	if err != nil {
		return Result{}, fault.New(fault.Failed, "check --bind and the routes", "open UDP socket: %w", err)
	}
	defer func() { _ = udp.Close() }()
	base := url.URL{Scheme: "http", Host: net.JoinHostPort(o.Server.Host, o.Server.Port)}
	if o.Server.TLS {
		base.Scheme = "https"
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return tcp.DialContext(ctx, "tcp", o.Address.String())
		},
		TLSClientConfig: &tls.Config{ServerName: o.Server.Host, InsecureSkipVerify: o.Insecure}, //nolint:gosec // --insecure
	}
	defer transport.CloseIdleConnections()
	started := time.Now()
	r := Result{
		Server: o.Server.URL(), Address: o.Address.String(), Local: udp.LocalAddr().String(), Family: familyOf(o.Address.Addr()).String(), TLS: o.Server.TLS,
		Test: Latency, Started: started.UTC(), MeasurementID: newID(), Notes: []string{},
	}
	query := url.Values{"client_name": {"weir"}, "client_version": {o.Version}}
	if o.Token != "" {
		query.Set("access_token", o.Token)
	}
	before := cpuTime()
	summary, err := latency.Measure(ctx, latency.ClientTest{
		HTTP: &http.Client{Transport: transport, Timeout: 2 * connectTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Base: base, UDP: udp, ID: r.MeasurementID, Duration: o.Duration,
		Query: query,
		Progress: func(_ int, last time.Duration) {
			if o.Progress != nil {
				o.Progress(Progress{At: time.Since(started), RTT: last})
			}
		},
	})
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return Result{}, latencyError(err)
	}
	r.Duration = time.Since(started).Seconds()
	r.ClientCPU = (cpuTime() - before).Seconds() / max(r.Duration, 0.001)
	r.RoundTrips, r.MeasurementID = &summary, summary.ID
	r.latencyFigures(summary)
	switch {
	case summary.PacketsSent == 0:
		r.Reason = "the server sent no datagram: UDP port " + strconv.Itoa(int(port)) + " is closed or filtered"
	case summary.PacketsReceived == 0:
		r.Reason = "the server received no echo: UDP port " + strconv.Itoa(int(port)) + " is filtered on the path"
	case o.Address.Addr().IsLoopback():
		r.Reason = "the server is on this host: the figures are those of the loopback device"
	}
	r.Valid = r.Reason == ""
	return r, nil
}

// latencyFigures computes the quantiles of the round-trip times and the share of lost datagrams.
func (r *Result) latencyFigures(s record.LatencySummary) {
	var rtts []float64
	for _, trip := range s.RoundTrips {
		if !trip.Lost {
			rtts = append(rtts, float64(trip.RTT)/1e6)
		}
	}
	if s.PacketsSent > 0 {
		lost := 1 - float64(s.PacketsReceived)/float64(s.PacketsSent)
		r.Lost = &lost
	}
	if len(rtts) == 0 {
		return
	}
	slices.Sort(rtts)
	r.MinRTT, r.MedianRTT, r.P95RTT = &rtts[0], &rtts[len(rtts)/2], &rtts[len(rtts)*95/100]
}

// latencyError adds the way out.
func latencyError(err error) error {
	var refused *websocket.Refused
	if errors.As(err, &refused) {
		return rejection(refused, Latency)
	}
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &unverified) {
		return fault.New(fault.Failed, "for a lab's self-signed certificate add --insecure", "%w", err)
	}
	return fault.New(fault.Failed, "check that the server runs latency1, and its scheme and port", "%w", fmt.Errorf("latency test: %w", err))
}
