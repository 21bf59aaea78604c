// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"golang.org/x/sys/unix"

	"weir/modules/ioam/collect"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	valid    = "00-" + traceID + "-" + parentID + "-01"
)

// contexts makes a domain that reads trace contexts at its end.
func (c *chain) contexts(t testing.TB, treatment string) {
	t.Helper()
	c.domain(t, treatment)
	ends := nodePolicy(3, "ingress, egress", "", ", remove: true", "")
	c.apply(t, "aramis", strings.Replace(ends, "node: 3", "node: 3\n  trace_context: true", 1))
}

// Records have the trace context of a request, for each form and place of the header field.
func TestTheContextOfARequestIsTold(t *testing.T) {
	request := func(fields ...string) string {
		return "GET / HTTP/1.1\r\nHost: beta\r\n" + strings.Join(append(fields, "", ""), "\r\n")
	}
	field := "traceparent: " + valid
	long := "Cookie: " + strings.Repeat("a", 1000)
	c := newChain(t, 1500)
	c.contexts(t, allFields)
	reader := c.reader(t, "aramis")
	for name, test := range map[string]struct{ sent, told string }{
		"first":               {request(field), valid},
		"among others":        {request("Accept: */*", field, "tracestate: a=b"), valid},
		"capitals":            {request("TraceParent:" + valid), valid},
		"spaces":              {request("traceparent:\t  " + valid + " "), valid},
		"bare line feeds":     {strings.ReplaceAll(request(field), "\r\n", "\n"), valid},
		"not sampled":         {request(strings.TrimSuffix(field, "1") + "0"), strings.TrimSuffix(valid, "1") + "0"},
		"a later version":     {request("traceparent: 01-" + valid[3:] + "-what-follows"), "01-" + valid[3:]},
		"with a body":         {strings.Replace(request(field), "GET", "POST", 1) + "body", valid},
		"none":                {request(), ""},
		"in the body":         {strings.Replace(request(), "GET", "POST", 1) + "x\r\n" + field + "\r\n", ""},
		"no request":          {"HTTP/1.1 200 OK\r\n" + field + "\r\n\r\n", ""},
		"in the path":         {"GET /?" + field + " HTTP/1.1\r\n\r\n", ""},
		"another field":       {request("x-" + field), ""},
		"version ff":          {request("traceparent: ff-" + valid[3:]), ""},
		"version 0 goes on":   {request(field + "-more"), ""},
		"capital digits":      {request(strings.ToUpper(field)), ""},
		"trace of zeros":      {request("traceparent: 00-" + strings.Repeat("0", 32) + "-" + parentID + "-01"), ""},
		"parent of zeros":     {request("traceparent: 00-" + traceID + "-" + strings.Repeat("0", 16) + "-01"), ""},
		"too short":           {request("traceparent: " + valid[:54]), ""},
		"cut off":             {request(field)[:len(request(field))-4], ""},
		"beyond what is read": {request(long, field), ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, file := c.connection(t)
			if _, err := unix.Write(client, []byte(test.sent)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(file, make([]byte, len(test.sent))); err != nil {
				t.Fatal(err)
			}
			told := ""
			if r := ofPayload(t, reader, client, len(test.sent)); !r.Context.IsZero() {
				told = r.Context.String()
			}
			if told != test.told {
				t.Errorf("told %q, want %q", told, test.told)
			}
		})
	}
}

// ofPayload reads records up to that of a packet with a payload of this size.
func ofPayload(t testing.TB, reader *Reader, client, octets int) collect.Record {
	t.Helper()
	name, err := unix.Getsockname(client)
	if err != nil {
		t.Fatal(err)
	}
	for {
		// IPv6, a trace of three nodes with seven words each, TCP with time stamps.
		r := next(t, reader)
		if int(r.Flow.SourcePort) == name.(*unix.SockaddrInet6).Port && int(r.Length) == 40+104+32+octets {
			return r
		}
	}
}

// Later packets of a connection have the context of the last request. A request without a context
// ends it, and so does a new connection with the same ports.
func TestAContextLastsUntilTheNextRequest(t *testing.T) {
	c := newChain(t, 1500)
	c.contexts(t, allFields)
	reader := c.reader(t, "aramis")
	client, file := c.connection(t)
	for i, step := range []struct {
		sent string
		told bool
	}{
		{"POST / HTTP/1.1\r\ntraceparent: " + valid + "\r\n\r\n", true},
		{"a part of the body", true},
		{"another, longer part of the body", true},
		{"GET /next HTTP/1.1\r\n\r\n", false},
		{"a part of nothing that is known", false},
	} {
		if _, err := unix.Write(client, []byte(step.sent)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(file, make([]byte, len(step.sent))); err != nil {
			t.Fatal(err)
		}
		if r := ofPayload(t, reader, client, len(step.sent)); r.Context.IsZero() == step.told {
			t.Errorf("step %d tells %q", i, r.Context)
		}
	}
}

// The context of a request without options is known for later packets with options. Requests are
// read only if the policy enables it.
func TestContextsAreOfPacketsWithoutOptionsToo(t *testing.T) {
	c := newChain(t, 1500)
	for _, test := range []struct {
		on   bool
		told uint64
	}{{false, 0}, {true, 1}} {
		c.domain(t, allFields+", dscp: 46")
		if test.on {
			c.contexts(t, allFields+", dscp: 46")
		}
		reader, err := OpenRecords(c.planes["aramis"].host.Pins)
		if err != nil {
			t.Fatal(err)
		}
		client, file := c.connection(t)
		octets := []byte("GET / HTTP/1.1\r\ntraceparent: " + valid + "\r\n\r\n")
		if _, err := unix.Write(client, octets); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(file, make([]byte, len(octets))); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetsockoptInt(client, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 46<<2); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(client, []byte("body")); err != nil {
			t.Fatal(err)
		}
		if r := ofPayload(t, reader, client, 4); !r.Context.IsZero() != test.on {
			t.Errorf("on %t: %q", test.on, r.Context)
		}
		if n := c.count(t, "aramis", "trace_contexts"); n != test.told {
			t.Errorf("on %t: %d contexts were read", test.on, n)
		}
		_ = reader.Close()
	}
}

// serve answers HTTP requests at beta, and returns its address.
func (c *chain) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := c.socket(t, "beta", unix.SOCK_STREAM, netip.AddrPortFrom(beta, 0))
	if err := unix.Listen(fd, 8); err != nil {
		t.Fatal(err)
	}
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(copied), "beta")
	defer func() { _ = file.Close() }()
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "traceparent is %s", r.Header.Get("traceparent"))
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// clients are commands at alpha that are not prepared for Weir.
var clients = map[string][]string{
	"curl":    {"-sS", "--max-time", "20", "-H", "traceparent: " + valid},
	"python3": {"-c", "import sys, urllib.request as r\nprint(r.urlopen(r.Request(sys.argv[1], headers={'traceparent': '" + valid + "'}), timeout=20).read().decode())"},
}

// For an unmodified client, hop spans are in its trace, under its span, as decoded by the
// OpenTelemetry collector's code.
func TestHopsJoinAnApplicationsTrace(t *testing.T) {
	c := newChain(t, 1500)
	c.contexts(t, allFields)
	reader := c.reader(t, "aramis")
	at := c.serve(t)
	for program, arguments := range clients {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skip("there is no " + program)
			}
			var answer bytes.Buffer
			command := exec.CommandContext(t.Context(), path, append(arguments, "http://"+at.String()+"/")...)
			command.Stdout, command.Stderr = &answer, &answer
			if err := c.ns["alpha"].Do(command.Run); err != nil || !strings.Contains(answer.String(), valid) {
				t.Fatalf("%v: %s", err, answer.String())
			}
			spans := exportedSpans(t, reader, 4)
			joined := spans.At(0)
			if got := joined.TraceID(); hex.EncodeToString(got[:]) != traceID {
				t.Errorf("the trace is %s", got)
			}
			if got := joined.ParentSpanID(); hex.EncodeToString(got[:]) != parentID {
				t.Errorf("the packet's span is under %s", got)
			}
			for i := 1; i <= 3; i++ {
				hop := spans.At(i)
				node, _ := hop.Attributes().Get("ioam.node")
				if hop.TraceID() != joined.TraceID() || hop.ParentSpanID() != joined.SpanID() || node.Int() != int64(i) {
					t.Errorf("hop %d: node %d, trace %s, under %s", i, node.Int(), hop.TraceID(), hop.ParentSpanID())
				}
			}
		})
	}
}

// exportedSpans exports the next record with a context and returns the wanted number of spans.
func exportedSpans(t *testing.T, reader *Reader, want int) ptrace.SpanSlice {
	t.Helper()
	received := make(chan ptrace.Traces, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		received <- traces
	}))
	defer server.Close()
	o := collect.NewOTLP(server.URL, "aramis")
	r := next(t, reader)
	for r.Context.IsZero() {
		r = next(t, reader)
	}
	o.Add(&r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Run(ctx, func(err error) { t.Error(err) })
	traces := <-received
	if n := traces.SpanCount(); n != want {
		t.Fatalf("%d spans", n)
	}
	return traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
}
