// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// bundle is the content of a plan's objects.
type bundle struct {
	plan  *plan
	texts [][]byte // records
	rows  [][]byte // the records with Date and Archiver
}

// archiver is the second member of a row, as M-Lab's jostler writes it.
type archiver struct {
	Version    string
	GitCommit  string
	ArchiveURL string
	Filename   string
}

// newBundle makes the rows. They depend on the plan and the records alone.
func newBundle(p *plan, texts [][]byte) *bundle {
	b := &bundle{plan: p, texts: texts}
	for i, name := range p.Files {
		head, _ := json.Marshal(archiver{p.Version, p.Commit, p.Archive, filepath.Join(p.Spool, p.Folder.path(), name)})
		row := make([]byte, 0, len(texts[i])+len(head)+64)
		row = fmt.Appendf(row, `{"Date":"%s","Archiver":%s,"Raw":`, p.day(), head)
		b.rows = append(b.rows, append(append(row, texts[i]...), '}'))
	}
	return b
}

// sum is the SHA-256 of the rows.
func (b *bundle) sum() string {
	hash := sha256.New()
	for i, row := range b.rows {
		if i > 0 {
			hash.Write([]byte{'\n'})
		}
		hash.Write(row)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// data compresses the rows: lines without a line end behind the last one.
func (b *bundle) data() ([]byte, error) { return compress(b.rows) }

// index compresses the list of the rows.
func (b *bundle) index() ([]byte, error) {
	var rows [][]byte
	for i, name := range b.plan.Files {
		row, err := json.Marshal(struct {
			Filename  string
			Size      int
			TimeAdded string
		}{filepath.Join(b.plan.Spool, b.plan.Folder.path(), name), len(b.rows[i]), b.plan.Time.UTC().Format("2006/01/02T150405.000000Z")})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return compress(rows)
}

func compress(rows [][]byte) ([]byte, error) {
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if i > 0 {
			_, err = writer.Write([]byte{'\n'})
		}
		if err == nil {
			_, err = writer.Write(row)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// rowOverhead is an upper bound of the bytes that a row adds to a record, beside its names.
const rowOverhead = 512

// drain archives the complete bundles of a folder, and the incomplete one if all is set. It leaves
// the planned records alone: the error of their plan has been reported.
func (a *Archive) drain(ctx context.Context, f folder, planned map[string]bool, all bool, r *Report) error {
	entries, err := os.ReadDir(filepath.Join(a.o.Spool, f.path()))
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	var names []string
	size, due := int64(0), all
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || planned[filepath.Join(f.path(), e.Name())] {
			continue // a temporary file of another program begins with a dot
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read spool: %w", err)
		}
		size += info.Size() + rowOverhead
		due = due || a.old(info.ModTime())
		names = append(names, e.Name())
	}
	if !due && size < int64(a.o.MaxBytes) {
		r.Waiting += len(names)
		return nil
	}
	var files []string
	var texts [][]byte
	bytes := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		text, reason, err := readRecord(filepath.Join(a.o.Spool, f.path(), name), a.o.MaxBytes-rowOverhead)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("read spool: %w", err)
		case reason != "":
			aside, err := a.setAside(f, name, reason)
			if err != nil {
				return err
			}
			r.Aside = append(r.Aside, aside)
			continue
		}
		if bytes+len(text)+rowOverhead > a.o.MaxBytes && len(files) > 0 {
			if err := a.bundle(ctx, f, files, texts, r); err != nil {
				return err
			}
			files, texts, bytes = nil, nil, 0
		}
		files, texts, bytes = append(files, name), append(texts, text), bytes+len(text)+rowOverhead
	}
	if !due {
		r.Waiting += len(files)
		return nil
	}
	if len(files) == 0 {
		return nil
	}
	return a.bundle(ctx, f, files, texts, r)
}

// bundle plans and archives these records.
func (a *Archive) bundle(ctx context.Context, f folder, files []string, texts [][]byte, r *Report) error {
	p, err := a.newPlan(f, files, texts)
	if err != nil {
		return err
	}
	return a.settle(ctx, p, texts, r)
}

// newPlan makes a durable plan with a time of its own.
func (a *Archive) newPlan(f folder, files []string, texts [][]byte) (*plan, error) {
	p := &plan{Format: planFormat, Folder: f, Node: a.o.Node, Org: a.o.Organization, Version: a.o.Version, Commit: a.o.Commit, Spool: a.o.Spool, Files: files}
	p.Time = a.o.Now().UTC().Truncate(time.Microsecond)
	if !p.Time.After(a.last) {
		p.Time = a.last.Add(time.Microsecond)
	}
	for { // after the clock is set back, a plan that waits for the archive may have this name
		if _, err := os.Lstat(a.file(p)); err != nil {
			break
		}
		p.Time = p.Time.Add(time.Microsecond)
	}
	a.last = p.Time
	p.Archive = a.o.Destination.URL(p.dataKey())
	p.Sum = newBundle(p, texts).sum()
	return p, a.save(p)
}

// settle carries out a plan, under another name if the archive has another object of its name.
func (a *Archive) settle(ctx context.Context, p *plan, texts [][]byte, r *Report) error {
	const tries = 10
	for try := 1; ; try++ {
		err := a.carryOut(ctx, p, texts, r)
		if !errors.Is(err, errForeign) || try == tries {
			return err
		}
		// Nothing of this bundle is in the archive, so that its plan may go first.
		if err := a.drop(p); err != nil {
			return err
		}
		if texts == nil {
			return nil // its records are in the spool and get a new plan
		}
		if p, err = a.newPlan(p.Folder, p.Files, texts); err != nil {
			return err
		}
	}
}
