// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/tls"
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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// serveTLS answers HTTP/2 requests in TLS at beta.
func (c *chain) serveTLS(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := c.socket(t, "beta", unix.SOCK_STREAM, netip.AddrPortFrom(beta, 0))
	if err := unix.Listen(fd, 8); err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(fileOf(t, fd))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, EnableHTTP2: true, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s of %d octets\n", r.Proto, r.ContentLength)
	})}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

func fileOf(t *testing.T, fd int) *os.File {
	t.Helper()
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(copied), "socket")
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// A client with HTTP/2 in TLS sets the span of each request at its socket. Hop spans are in that
// trace, under that span, although no node can read the traffic.
func TestHopsJoinTracesOfHTTP2InTLS(t *testing.T) {
	s := newSenders(t, takesContexts, "trace: [node, interfaces, timestamps, delay], nodes: 2, protocol: tcp")
	reader := s.reader(t, "aramis")
	at := s.serveTLS(t)
	fd := s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err := unix.Connect(fd, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(fileOf(t, fd))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		return c, c.HandshakeContext(ctx)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for i := range 3 {
		parent := fmt.Sprintf("%016x", 0xa0+i)
		say(t, fd, "00-"+traceID+"-"+parent+"-01")
		response, err := client.Post("https://"+at.String()+"/", "text/plain", strings.NewReader("a request"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(answer), "HTTP/2.0") {
			t.Fatalf("%q, %v", answer, err)
		}
		hopsUnder(t, reader, parent, 2)
	}
}

// hopsUnder waits for a packet with spans in the test's trace, under a parent span, with this
// number of nodes below it.
func hopsUnder(t *testing.T, reader *Reader, parent string, nodes int) {
	t.Helper()
	for {
		spans := exportedSpans(t, reader, nodes+1)
		joined := spans.At(0)
		trace, under := joined.TraceID(), joined.ParentSpanID()
		if hex.EncodeToString(trace[:]) != traceID {
			t.Fatalf("the trace is %s", trace)
		}
		if hex.EncodeToString(under[:]) != parent {
			continue // of the previous request
		}
		for i := 1; i <= nodes; i++ {
			hop := spans.At(i)
			node, _ := hop.Attributes().Get("ioam.node")
			if hop.TraceID() != trace || hop.ParentSpanID() != joined.SpanID() || node.Int() != int64(i) {
				t.Errorf("hop %d: node %d, trace %s, under %s", i, node.Int(), hop.TraceID(), hop.ParentSpanID())
			}
		}
		return
	}
}

// tlsClient is an application that adds one line for Weir.
const tlsClient = `
import encodings.idna, os, socket, ssl, sys
host, port, context, user = sys.argv[1:]
tls = ssl._create_unverified_context()
if user != "0":
    os.setgroups([]); os.setgid(int(user)); os.setuid(int(user))
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
try: s.setsockopt(0x57454952, 1, context.encode())
except OSError as e: print("not said:", e)
s.connect((host, int(port)))
s = tls.wrap_socket(s)
s.sendall(b"GET / HTTP/1.1\r\nHost: beta\r\nConnection: close\r\n\r\n")
print(s.makefile().read())
`

// Any user may set a context on own sockets, without privilege. In an own user namespace this still
// holds; in an own network namespace there is no node.
func TestNobodyNeedsPrivilegesToSayAContext(t *testing.T) {
	python := testutil.Command(t, "python3")
	s := newSenders(t, takesContexts, "trace: [node, timestamps], nodes: 2, protocol: tcp")
	reader := s.reader(t, "aramis")
	at := s.serveTLS(t)
	say(t, s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_DGRAM, 0), valid)
	folder, err := os.Open(s.group.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	for name, test := range map[string]struct {
		user  string
		flags uintptr
	}{"a user": {"65534", 0}, "in a user namespace": {"0", unix.CLONE_NEWUSER}} {
		t.Run(name, func(t *testing.T) {
			var answer bytes.Buffer
			command := exec.CommandContext(t.Context(), python, "-c", tlsClient, at.Addr().String(), fmt.Sprint(at.Port()), valid, test.user)
			command.Stdout, command.Stderr, command.Dir = &answer, &answer, "/"
			command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd()), Cloneflags: test.flags}
			if err := s.ns["alpha"].Do(command.Run); err != nil || !strings.Contains(answer.String(), "HTTP/1.1 of") || strings.Contains(answer.String(), "not said") {
				t.Fatalf("%v: %s", err, answer.String())
			}
			hopsUnder(t, reader, parentID, 2)
		})
	}
}
