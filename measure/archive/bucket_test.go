// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// s3 is a running versitygw with the bucket "mlab".
type s3 struct {
	folder  string
	address string
	process *exec.Cmd
}

// startS3 starts versitygw over a folder, at an address that it keeps after restarts.
func startS3(t *testing.T, folder string) *s3 {
	t.Helper()
	program := testutil.Fetched(t, "WEIR_S3", "versitygw", "scripts/fetch-s3")
	if err := os.MkdirAll(filepath.Join(folder, "mlab"), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &s3{folder: folder, address: listener.Addr().String()}
	_ = listener.Close()
	t.Cleanup(s.stop)
	s.start(t, program)
	return s
}

func (s *s3) start(t *testing.T, program string) {
	t.Helper()
	s.process = exec.Command(program, "--port", s.address, "--quiet", "posix", s.folder)
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY=key", "ROOT_SECRET_KEY=secret")
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, time.Minute, "the start of the S3 server", func() bool {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// stop kills the server. It may be started again.
func (s *s3) stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// destination opens the bucket with this key at an address: the server's own, or a proxy's.
func destination(t *testing.T, address, key string) Destination {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", key)
	d, err := Open("s3://mlab/site?endpoint=http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestABucketHasTheSameObjectsAsAFolder(t *testing.T) {
	s := startS3(t, t.TempDir())
	d := destination(t, s.address, "secret")
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 20)
	r, err := newArchive(t, dir, d).Pass(t.Context(), true)
	if err != nil || r.Records != 20 {
		t.Fatalf("%+v (%v)", r, err)
	}
	found := objects(t, filepath.Join(s.folder, "mlab", "site"))
	if count := archived(t, found, d.URL); len(count) != 20 {
		t.Errorf("%d records: %v", len(count), count)
	}
	for key, content := range found {
		if err := d.Create(t.Context(), key, []byte("other")); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s again: %v", key, err)
		}
		if have, err := d.Read(t.Context(), key); err != nil || string(have) != string(content) {
			t.Errorf("%s: %d bytes (%v), want %d", key, len(have), err, len(content))
		}
	}
}

func TestErrorsOfABucketHaveAdvice(t *testing.T) {
	s := startS3(t, t.TempDir())
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 1)
	pass := func(d Destination) error {
		_, err := newArchive(t, dir, d).Pass(t.Context(), true)
		return err
	}
	expect := func(what string, err error, status fault.Status, try string) {
		t.Helper()
		if err == nil || fault.Of(err) != status || !strings.Contains(fault.Advice(err), try) {
			t.Errorf("%s: %v (status %d, %q)", what, err, fault.Of(err), fault.Advice(err))
		}
	}
	wrong := destination(t, s.address, "wrong")
	expect("a wrong key", pass(wrong), fault.Permission, "AWS_SECRET_ACCESS_KEY")
	expect("a wrong key, checked", wrong.Check(t.Context()), fault.Permission, "AWS_SECRET_ACCESS_KEY")
	if err := os.Rename(filepath.Join(s.folder, "mlab"), filepath.Join(s.folder, "other")); err != nil {
		t.Fatal(err)
	}
	right := destination(t, s.address, "secret")
	expect("no bucket", pass(right), fault.Usage, "create the bucket mlab")
	expect("no bucket, checked", right.Check(t.Context()), fault.Usage, "create the bucket mlab")
	s.stop()
	expect("a dead server", pass(right), fault.Failed, "reachable")
	if len(objects(t, filepath.Join(dir, "weir"))) != 1 {
		t.Error("the record is not in the spool any more")
	}
}

// A server that dies at random requests, or after it has carried one out, gets each record once.
func TestAnInterruptedBucketGetsEachRecordOnce(t *testing.T) {
	s := startS3(t, t.TempDir())
	target := &url.URL{Scheme: "http", Host: s.address}
	random := testutil.Rand(t)
	var requests atomic.Int64
	refuse, cut := make([]bool, 1000), make([]bool, 1000)
	for i := range refuse {
		refuse[i], cut[i] = random.IntN(12) == 0, random.IntN(12) == 0
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			panic(http.ErrAbortHandler)
		},
		ModifyResponse: func(r *http.Response) error {
			if cut[requests.Load()%1000] { // the request is carried out, and the answer lost
				return errors.New("cut")
			}
			return nil
		},
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := requests.Add(1) % 1000; {
		case refuse[n] && n%2 == 0:
			http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		case refuse[n]: // a part of the content
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	}), ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { _ = proxy.Close() })

	d := destination(t, listener.Addr().String(), "secret")
	dir := t.TempDir()
	total := 0
	failed := 0
	for round := range 10 {
		store(t, dir, "quality1", fmt.Sprint("r", round), 10)
		total += 10
		if _, err := newArchive(t, dir, d).Pass(t.Context(), true); err != nil {
			failed++
		}
	}
	direct := destination(t, s.address, "secret")
	for try := 0; ; try++ { // the plans name the proxy's bucket, which is the same
		if _, err := newArchive(t, dir, direct).Pass(t.Context(), true); err == nil {
			break
		} else if try == 3 {
			t.Fatal(err)
		}
	}
	count := archived(t, objects(t, filepath.Join(s.folder, "mlab", "site")), d.URL)
	for id, n := range count {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(count) != total || failed == 0 {
		t.Errorf("%d records of %d; %d passes failed", len(count), total, failed)
	}
	t.Logf("%d requests, %d of 10 passes failed", requests.Load(), failed)
}

func TestTheDiskOfABucketMayFillUp(t *testing.T) {
	folder := testutil.SmallDisk(t, 4<<20)
	s := startS3(t, folder)
	d := destination(t, s.address, "secret")
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 20)
	other := filepath.Join(folder, "other")
	testutil.FillDisk(t, other)
	if r, err := newArchive(t, dir, d).Pass(t.Context(), true); err == nil || r.Records != 0 {
		t.Errorf("a full disk: %+v, error %v", r, err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if r, err := newArchive(t, dir, d).Pass(t.Context(), true); err != nil || r.Records != 20 {
		t.Errorf("after space was made: %+v, error %v", r, err)
	}
	count := archived(t, objects(t, filepath.Join(folder, "mlab", "site")), d.URL)
	if len(count) != 20 {
		t.Errorf("%d records", len(count))
	}
}

// A server that takes a connection and never answers holds a pass no longer than its context.
func TestASilentBucketEndsWithTheContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			cancel()
		}
	}()
	dir := t.TempDir()
	store(t, dir, "quality1", "a", 1)
	if _, err := newArchive(t, dir, destination(t, listener.Addr().String(), "secret")).Pass(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(objects(t, filepath.Join(dir, "weir"))) != 1 {
		t.Error("the record is not in the spool any more")
	}
}

func TestAddressesOfArchives(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for address, want := range map[string]string{
		"/srv/archive":                 "file:///srv/archive/k",
		"file:///srv/archive/":         "file:///srv/archive/k",
		"s3://bucket":                  "s3://bucket/k",
		"s3://bucket/a/b/":             "s3://bucket/a/b/k",
		"gs://bucket/a":                "gs://bucket/a/k",
		"s3://abc?endpoint=http://h:1": "s3://abc/k",
	} {
		d, err := Open(address)
		if err != nil || d.URL("k") != want {
			t.Errorf("%s: %v, %v", address, d, err)
		}
	}
	for _, address := range []string{"", "http://host/bucket", "file://host/a", "s3://", "s3://b", "s3://abc?endpont=http://h", "s3://abc?endpoint=h:1", "s3://abc?endpoint=http://h/path", "s3://key:secret@abc", "s3://%zz"} {
		if d, err := Open(address); err == nil || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%q: %v, %v", address, d, err)
		} else if strings.Contains(err.Error(), "key:secret") {
			t.Errorf("%q: the error shows the key: %v", address, err)
		}
	}
}
