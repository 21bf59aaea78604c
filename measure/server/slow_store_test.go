// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"weir/measure/ndt7"
	"weir/measure/record"
)

// The client receives Close 1000 also if its records take longer than the deadlines of the test.
func TestASlowStoreStillClosesTheTest(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, func(c *Config) { c.TestDuration = 20 * time.Second })
	s.store.pause = time.Second
	up := s.uploader(t)
	if err := up.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "")); err != nil {
		t.Fatal(err)
	}
	if _, closed := drain(t, up); closed == nil || closed.Code != 1000 {
		t.Errorf("upload: closed by %v", closed)
	}
}

func TestASlowStoreStillClosesADownload(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, nil)
	s.store.pause = 2 * time.Second
	down := s.peer(t, ndt7.DownloadPath)
	if err := down.WriteJSON(record.Measurement{}); err != nil {
		t.Fatal(err)
	}
	if _, closed := drain(t, down); closed == nil || closed.Code != 1000 {
		t.Errorf("download: closed by %v", closed)
	}
	for _, q := range s.store.quality(t) {
		if q.Outcome != "complete" {
			t.Errorf("outcome %q", q.Outcome)
		}
	}
}
