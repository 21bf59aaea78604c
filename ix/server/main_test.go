// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"weir/ix/config"
)

// serveVariable names a folder with ix.yaml; the test binary then is a path server with its state
// in it.
const serveVariable = "WEIR_TEST_IX_SERVE"

// portVariable is the port of that path server.
const portVariable = "WEIR_TEST_IX_PORT"

func TestMain(m *testing.M) {
	if folder := os.Getenv(serveVariable); folder != "" {
		if err := serveFolder(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveFolder(folder string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	e, err := config.Load(filepath.Join(folder, "ix.yaml"))
	if err != nil {
		return err
	}
	port, _ := strconv.Atoi(os.Getenv(portVariable)) // 0: that of BGP
	s, err := New(e, Options{State: folder, Port: port, Retry: retry, Save: 500 * time.Millisecond, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	go func() { _ = s.Control(ctx, filepath.Join(folder, "ix.sock"), stop) }()
	return s.Run(ctx)
}
