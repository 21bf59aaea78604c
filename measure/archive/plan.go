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
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

// plan is the durable description of a bundle:
//
//	planned ---- all objects exist ----> uploaded ---- all records deleted ----> no plan
//
// A planned bundle may be uploaded in part, an uploaded one deleted in part.
type plan struct {
	Format   string    `json:"format"` // planFormat
	Folder   folder    `json:"folder"`
	Time     time.Time `json:"time"` // in the objects' names, microseconds
	Node     string    `json:"node"`
	Org      string    `json:"organization"`
	Version  string    `json:"version"`
	Commit   string    `json:"commit"`
	Spool    string    `json:"spool"`   // path in the rows
	Archive  string    `json:"archive"` // URL of the data object
	Files    []string  `json:"files"`
	Sum      string    `json:"sum"` // SHA-256 of the rows, hexadecimal
	Uploaded bool      `json:"uploaded"`
}

const planFormat = "weir-archive-plan/1"

const stampLayout = "20060102T150405.000000Z"

// stem is the common part of the objects' names.
func (p *plan) stem() string {
	return fmt.Sprintf("%s-%s-%s-%s", p.Time.UTC().Format(stampLayout), p.Folder.Datatype, p.Node, p.Folder.Experiment)
}

func (p *plan) dataKey() string {
	return fmt.Sprintf("autoload/v2/%s/%s/%s/%s/%s-data.jsonl.gz", p.Org, p.Folder.Experiment, p.Folder.Datatype, p.Folder.Date, p.stem())
}

func (p *plan) indexKey() string {
	return fmt.Sprintf("autoload/v2/%s/%s/index1/%s/%s-index1.jsonl.gz", p.Org, p.Folder.Experiment, p.Folder.Date, p.stem())
}

func (p *plan) parquetKey() string {
	return fmt.Sprintf("parquet/v1/organization=%s/experiment=%s/datatype=%s/date=%s/%s.parquet",
		p.Org, p.Folder.Experiment, p.Folder.Datatype, p.day(), p.stem())
}

// day is the date as YYYY-MM-DD.
func (p *plan) day() string { return strings.ReplaceAll(p.Folder.Date, "/", "-") }

// file is the path of the plan.
func (a *Archive) file(p *plan) string {
	return filepath.Join(a.o.Spool, stateFolder, p.stem()+".plan.json")
}

// save makes the plan durable.
func (a *Archive) save(p *plan) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = atomicfile.WriteBytes(a.file(p), 0o644, text)
	}
	if err != nil {
		return fmt.Errorf("write plan of a bundle: %w", err)
	}
	return nil
}

// plans reads the plans that an earlier process left.
func (a *Archive) plans() ([]*plan, error) {
	names, err := filepath.Glob(filepath.Join(a.o.Spool, stateFolder, "*.plan.json"))
	if err != nil {
		return nil, err
	}
	var found []*plan
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read plan of a bundle: %w", err)
		}
		p, err := parsePlan(text)
		if err == nil && a.file(p) != name {
			err = errors.New("it has another name than its bundle")
		}
		if err != nil {
			return nil, fault.New(fault.Failed, "move the file away; its records are archived again, perhaps twice", "plan %s: %w", name, err)
		}
		found = append(found, p)
	}
	return found, nil
}

// parsePlan decodes and checks a plan.
func parsePlan(text []byte) (*plan, error) {
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	parts := strings.Split(p.Folder.Date, "/")
	switch {
	case p.Format != planFormat:
		return nil, fmt.Errorf("the format is %q, not %s", p.Format, planFormat)
	case !wordName.MatchString(p.Folder.Experiment) || !wordName.MatchString(p.Folder.Datatype) || !organizationName.MatchString(p.Org) || !nodeName.MatchString(p.Node):
		return nil, errors.New("experiment, datatype, organization or node is not valid")
	case len(parts) != 3 || !yearName.MatchString(parts[0]) || !dayName.MatchString(parts[1]) || !dayName.MatchString(parts[2]):
		return nil, fmt.Errorf("the date %q is not valid", p.Folder.Date)
	case p.Time.Year() < 0 || p.Time.Year() > 9999:
		return nil, errors.New("the time is not valid")
	case len(p.Files) == 0:
		return nil, errors.New("it has no file")
	}
	for _, f := range p.Files {
		if !recordName.MatchString(f) || strings.Contains(f, "..") {
			return nil, fmt.Errorf("the file name %q is not valid", f)
		}
	}
	return &p, nil
}

// carryOut uploads the objects of a plan, deletes its records, and then the plan. texts are those
// of the files; nil reads them.
func (a *Archive) carryOut(ctx context.Context, p *plan, texts [][]byte, r *Report) error {
	if !p.Uploaded {
		if texts == nil {
			for _, name := range p.Files {
				text, reason, err := readRecord(filepath.Join(a.o.Spool, p.Folder.path(), name), a.o.MaxBytes)
				if err == nil && reason != "" {
					err = fmt.Errorf("%s: %s", name, reason)
				}
				if err != nil {
					return fault.New(fault.Failed, "restore the file, or move the plan "+a.file(p)+" away", "continue bundle %s: %w", p.stem(), err)
				}
				texts = append(texts, text)
			}
		}
		b := newBundle(p, texts)
		if b.sum() != p.Sum {
			return fault.New(fault.Failed, "restore the files, or move the plan "+a.file(p)+" away", "continue bundle %s: a record has changed since it was planned", p.stem())
		}
		if err := a.upload(ctx, p, b, r); err != nil {
			return err
		}
		p.Uploaded = true
		if err := a.save(p); err != nil {
			return err
		}
		r.Bundles++
		r.Records += len(p.Files)
	}
	return a.finish(p)
}

// finish deletes the records of an uploaded plan, and then the plan.
func (a *Archive) finish(p *plan) error {
	dir := filepath.Join(a.o.Spool, p.Folder.path())
	for _, name := range p.Files {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete an archived record: %w", err)
		}
	}
	err := atomicfile.Sync(dir)
	if err == nil {
		_ = os.Remove(dir) // fails if there are other records
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete archived records: %w", err)
	}
	return a.drop(p)
}

// drop deletes a plan.
func (a *Archive) drop(p *plan) error {
	err := os.Remove(a.file(p))
	if err == nil {
		err = atomicfile.Sync(filepath.Dir(a.file(p)))
	}
	if err != nil {
		return fmt.Errorf("delete the plan of a bundle: %w", err)
	}
	return nil
}

// upload creates the objects of a bundle. It returns errForeign if the data object exists with
// other rows; with the same rows, an earlier try created it.
func (a *Archive) upload(ctx context.Context, p *plan, b *bundle, r *Report) error {
	data, err := b.data()
	if err != nil {
		return fmt.Errorf("compress bundle %s: %w", p.stem(), err)
	}
	err = a.o.Destination.Create(ctx, p.dataKey(), data)
	if errors.Is(err, os.ErrExist) {
		err = a.compare(ctx, p)
	}
	if err != nil {
		return err
	}
	r.Bytes += int64(len(data))
	index, err := b.index()
	if err != nil {
		return fmt.Errorf("compress index of %s: %w", p.stem(), err)
	}
	if err := a.o.Destination.Create(ctx, p.indexKey(), index); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if a.o.NoParquet {
		return nil
	}
	rows, err := b.parquet()
	if err != nil {
		return fmt.Errorf("write Parquet rows of %s: %w", p.stem(), err)
	}
	if err := a.o.Destination.Create(ctx, p.parquetKey(), rows); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// errForeign reports a data object with the name of a bundle and other rows.
var errForeign = errors.New("the archive has another object of this name")

// compare returns nil if the archive's data object has the rows of the plan.
func (a *Archive) compare(ctx context.Context, p *plan) error {
	have, err := a.o.Destination.Read(ctx, p.dataKey())
	if err != nil {
		return err
	}
	hash := sha256.New()
	reader, err := gzip.NewReader(bytes.NewReader(have))
	if err == nil {
		_, err = io.Copy(hash, reader)
	}
	if err != nil || hex.EncodeToString(hash.Sum(nil)) != p.Sum {
		return fmt.Errorf("upload %s: %w", p.Archive, errForeign)
	}
	return nil
}
