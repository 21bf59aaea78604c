// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// 300 connections with unfinished requests do not keep the server from answering another one. The
// listener keeps at most its maximum of connections open.
func TestUnfinishedRequestsBlockNoOtherClient(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := &limitedListener{Listener: inner, most: 8}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }),
		ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(limited) }()
	defer func() { _ = server.Close() }()
	held := make([]net.Conn, 300)
	for i := range held {
		if held[i], err = net.Dial("tcp4", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held[i].Close() }()
		if _, err := io.WriteString(held[i], "GET /healthz HT"); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := http.Get("http://" + inner.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || string(text) != "well" {
		t.Errorf("answered %q, %v", text, err)
	}
	for i, conn := range held[:len(held)-8] {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d was answered", i)
		}
	}
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if len(limited.open) > 8 {
		t.Errorf("%d connections are open", len(limited.open))
	}
}
