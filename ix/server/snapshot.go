// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/internal/infile"
	"weir/ix/rib"
	"weir/ix/wire"
)

// Files in Options.State.
const (
	snapshotName = "paths.mrt.zst" // a table with additional paths, in MRT format
	drainedName  = "drained.json"
)

var ribKind = infile.Kind{What: "routing table", Name: "name an MRT file"}

// loadFile reads feed.rib, a complete feed.
func (s *Server) loadFile(name string) error {
	file, err := ribKind.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := s.load(file, nil); err != nil {
		return fault.New(fault.Usage, "name a sound MRT file", "%s: %w", name, err)
	}
	s.engine.mu.Lock()
	s.engine.serve(true)
	s.engine.mu.Unlock()
	return nil
}

// loadSnapshot reads the snapshot of a former process, if it is recent: its paths are sent at once,
// as paths of a former session of the feed. It returns the time for which they stay. The time of
// the file is that of the last contact with the feed, at most two intervals too early.
func (s *Server) loadSnapshot() (left time.Duration, err error) {
	stale := s.engine.exchange.Choose.Stale
	if s.options.State == "" {
		return stale, nil
	}
	name := filepath.Join(s.options.State, snapshotName)
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return stale, nil
	}
	if err != nil {
		return stale, fmt.Errorf("read the snapshot: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return stale, fmt.Errorf("read the snapshot: %w", err)
	}
	most := stale + 2*s.options.Save
	if left = most - time.Since(info.ModTime()); left <= 0 {
		s.log.Info("the snapshot is too old", "file", name, "limit", most)
		return stale, nil
	}
	columns := map[rib.PortID]bool{}
	if err := s.load(file, columns); err != nil {
		s.log.Warn("the snapshot is unusable; members wait for the feed", "file", name, "reason", err)
		s.engine.table = newTable(s.engine.exchange)
		return stale, nil
	}
	s.log.Info("the snapshot is loaded", "paths", s.engine.table.rib.Stats().Paths)
	s.feed.left, s.saved = info.ModTime(), info.ModTime()
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	for c := range columns {
		s.feed.former = append(s.feed.former, c)
	}
	s.engine.serve(false)
	return min(stale, left), nil
}

// load adds the routes of an MRT stream, one column per peer and path identifier.
func (s *Server) load(from io.Reader, used map[rib.PortID]bool) error {
	r, err := wire.NewReader(from, wire.Options{})
	if err != nil {
		return err
	}
	x := s.engine
	x.mu.Lock()
	defer x.mu.Unlock()
	columns := map[[2]uint32]rib.PortID{}
	for route, err := range r.All {
		if err != nil {
			return err
		}
		key := [2]uint32{uint32(route.Peer), route.PathID}
		column, known := columns[key]
		if !known {
			if column, known = x.table.column(); !known {
				return rib.ErrFull
			}
			columns[key] = column
			if used != nil {
				used[column] = true
			}
		}
		if route.Withdrawn {
			x.withdraw(route.Prefix, column)
		} else {
			x.set(route.Prefix, column, route.Attrs, &route.View)
		}
	}
	return nil
}

// tidy removes temporary files that a killed process has left.
func (s *Server) tidy() {
	if s.options.State == "" {
		return
	}
	all, err := os.ReadDir(s.options.State)
	if err != nil {
		return // the saver reports it
	}
	for _, f := range all {
		if strings.HasPrefix(f.Name(), snapshotName+".") || strings.HasPrefix(f.Name(), drainedName+".") {
			if err := os.Remove(filepath.Join(s.options.State, f.Name())); err != nil {
				s.log.Warn("a temporary file stays", "reason", err)
			}
		}
	}
}

// saveSoon asks for a snapshot.
func (s *Server) saveSoon() {
	select {
	case s.saving <- struct{}{}:
	default:
	}
}

// saver writes snapshots. The pause after a snapshot is at least ten times the time that it took.
func (s *Server) saver(ctx context.Context) error {
	if s.options.State == "" || s.engine.exchange.Feed.RIB != "" {
		return nil
	}
	next := s.options.Save
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return s.save()
		case <-timer.C:
		case <-s.saving:
			timer.Stop()
		}
		start := time.Now()
		if err := s.save(); err != nil {
			s.log.Error("write the snapshot", "reason", err)
		}
		next = max(s.options.Save, 10*time.Since(start))
	}
}

// save writes the table to the snapshot, with the time of the last contact with the feed: without
// feed, restarts do not make paths younger. An empty table removes the snapshot.
func (s *Server) save() error {
	x := s.engine
	name := filepath.Join(s.options.State, snapshotName)
	x.mu.Lock()
	open, paths := x.open, x.table.rib.Stats().Paths
	x.mu.Unlock()
	if !open {
		return nil
	}
	if paths == 0 {
		if err := os.Remove(name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		return atomicfile.Sync(s.options.State)
	}
	contact := s.feed.contact()
	if contact.Equal(s.saved) {
		return nil
	}
	if err := s.write(name); err != nil {
		return err
	}
	s.saved = contact
	return os.Chtimes(name, contact, contact)
}

// write writes the table to a file, chunk by chunk beside its changes. The feed corrects
// differences between chunks after a restart.
func (s *Server) write(name string) error {
	x := s.engine
	return atomicfile.Write(name, 0o600, func(w io.Writer) error {
		pack, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
		if err != nil {
			return err
		}
		plain := bufio.NewWriterSize(pack, 256<<10)
		now := uint32(time.Now().Unix())
		e := x.exchange
		buffer := wire.AppendPeers(nil, now, e.RouterID, wire.Peer{Addr: e.Feed.Bird, AS: e.AS})
		for row, more := uint32(1), true; more; {
			if _, err := plain.Write(buffer); err != nil {
				return err
			}
			buffer, row, more = x.records(buffer[:0], now, row)
		}
		if err := plain.Flush(); err != nil {
			return err
		}
		return pack.Close()
	})
}

// records appends the records of the next rows. more is false behind the last row.
func (x *engine) records(dst []byte, now, row uint32) (records []byte, next uint32, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := min(row+chunkRows, x.table.rib.Rows())
	var attrs []wire.Attrs
	for ; row < end; row++ {
		prefix, paths, ok := x.table.rowPaths(row, x.after[:0])
		if x.after = paths; !ok {
			continue
		}
		attrs = attrs[:0]
		for i := range paths {
			attrs = append(attrs, paths[i].attrs)
		}
		dst = wire.AppendPaths(dst, now, row, prefix, attrs)
	}
	return dst, row, row < x.table.rib.Rows() || len(dst) > 0
}

// loadDrained reads the sponsors and ports drained by command.
func (s *Server) loadDrained() (map[string]bool, error) {
	drained := map[string]bool{}
	if s.options.State == "" {
		return drained, nil
	}
	name := filepath.Join(s.options.State, drainedName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return drained, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &drained)
	}
	if err != nil {
		return nil, fault.New(fault.Failed, "correct or remove the file", "read the drained sponsors: %s: %w", name, err)
	}
	return drained, nil
}

func (s *Server) saveDrained(orders map[string]bool) error {
	if s.options.State == "" {
		return nil
	}
	text, err := json.Marshal(orders)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.options.State, drainedName), 0o600, append(text, '\n'))
}
