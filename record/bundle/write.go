// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/fault"
	"weir/record"
	"weir/record/plot"
	"weir/record/report"
)

// Write writes the bundle to dir, which must not exist, be empty or hold a bundle; Write replaces
// that as a whole. It sets the manifest's format to [record.FormatBundle]. After an error dir is
// unchanged.
func Write(dir string, b *record.Bundle) error { return WriteContext(context.Background(), dir, b) }

// WriteContext is [Write] until ctx ends: then it removes the partial bundle and returns at once,
// though drawing may continue in the background.
func WriteContext(ctx context.Context, dir string, b *record.Bundle) error {
	dir, err := resolve(dir)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := checkTarget(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return explain(fmt.Errorf("create %s: %w", parent, err), dir)
	}
	partial := sibling(dir, "partial")
	if err := os.Mkdir(partial, 0o777); err != nil {
		return explain(fmt.Errorf("write bundle: %w", err), dir)
	}
	written := make(chan error, 1)
	go func() { written <- writeAll(partial, b) }()
	select {
	case err = <-written:
	case <-ctx.Done():
		// Under another name the writer can create no further file.
		abandoned := sibling(dir, "abandoned")
		return errors.Join(fmt.Errorf("write bundle %s: %w", dir, context.Cause(ctx)), os.Rename(partial, abandoned), os.RemoveAll(abandoned))
	}
	if err != nil {
		return explain(errors.Join(fmt.Errorf("write bundle %s: %w", dir, err), os.RemoveAll(partial)), dir)
	}
	if err := replace(dir, partial); err != nil {
		return explain(errors.Join(fmt.Errorf("write bundle %s: %w", dir, err), os.RemoveAll(partial)), dir)
	}
	sweep(dir)
	return nil
}

// checkTarget rejects a target that is not a bundle.
func checkTarget(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return explain(fmt.Errorf("write bundle: %w", err), dir)
	case !info.IsDir():
		return fault.New(fault.Usage, "give the name of a folder that does not exist yet", "write bundle: %s is a file", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return explain(fmt.Errorf("write bundle: %w", err), dir)
	}
	if len(entries) == 0 || isBundle(dir) {
		return nil
	}
	return fault.New(fault.Usage, "give the name of a folder that does not exist yet",
		"write bundle: folder %s exists and holds something else than a bundle", dir)
}

// isBundle reports whether dir has the manifest of a bundle of any version.
func isBundle(dir string) bool {
	text, err := documentFile.Read(filepath.Join(dir, ManifestFile))
	var manifest struct {
		Format string `json:"format"`
	}
	return err == nil && json.Unmarshal(text, &manifest) == nil && strings.HasPrefix(manifest.Format, formatFamily)
}

// writeAll writes every file into dir, and then their sums.
func writeAll(dir string, b *record.Bundle) error {
	complete := *b
	complete.Manifest.Format = record.FormatBundle
	b = &complete
	type file struct {
		name  string
		write func(io.Writer) error
	}
	files := []file{
		{SamplesFile, func(w io.Writer) error { return writeSamples(w, b.Samples) }},
		{SeriesFile, func(w io.Writer) error { return writePoints(w, b.Points) }},
		{DistributionsFile, func(w io.Writer) error { return writeDistributions(w, b.Distributions) }},
		{VerdictsFile, func(w io.Writer) error { return writeJSON(w, orEmpty(b.Verdicts)) }},
		{TablesFile, func(w io.Writer) error { return writeJSON(w, orEmpty(b.Tables)) }},
		{FiguresFile, func(w io.Writer) error { return writeJSON(w, orEmpty(b.Figures)) }},
		{ProofsFile, func(w io.Writer) error { return writeJSON(w, orEmpty(b.Proofs)) }},
		{SummaryFile, func(w io.Writer) error { return writeJSON(w, Summarize(b)) }},
		{CSVFile, func(w io.Writer) error { return WriteCSV(w, b.Samples) }},
		{JUnitFile, func(w io.Writer) error { return WriteJUnit(w, b) }},
	}
	page := report.New(b)
	files = append(files, file{ReportFile, page.Write})
	for _, f := range page.Figures {
		for extension, draw := range map[string]func(io.Writer, record.Figure) error{".svg": plot.SVG, ".png": plot.PNG} {
			files = append(files, file{filepath.Join(PlotsFolder, f.Name) + extension, drawn(draw, f)})
		}
	}
	files = append(files, file{ManifestFile, func(w io.Writer) error { return writeJSON(w, b.Manifest) }})
	if err := os.Mkdir(filepath.Join(dir, PlotsFolder), 0o777); err != nil {
		return err
	}
	for _, a := range b.Attachments {
		name, err := attachmentName(a)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			return err
		}
		files = append(files, file{name, a.Copy})
	}
	all := sums{}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		sum, err := writeFile(path, file.write)
		if errors.Is(err, errNotDrawn) {
			if err = os.Remove(path); err == nil {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		all[file.name] = sum
	}
	if _, err := writeFile(filepath.Join(dir, SumsFile), all.write); err != nil {
		return fmt.Errorf("%s: %w", SumsFile, err)
	}
	return nil
}

// errNotDrawn is returned for a figure that cannot be drawn. The report shows the reason instead;
// the bundle is still written.
var errNotDrawn = errors.New("figure cannot be drawn")

// drawn draws into memory first, to distinguish errors of the figure from those of the disk.
func drawn(draw func(io.Writer, record.Figure) error, f record.Figure) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		if draw(&b, f) != nil {
			return errNotDrawn
		}
		_, err := b.WriteTo(w)
		return err
	}
}

// writeFile creates a file, buffers the output of write, syncs it, and returns its SHA-256 sum.
func writeFile(path string, write func(io.Writer) error) (sum string, err error) {
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(file, hash), 1<<16)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, file.Close())
}

// writeJSON writes a document with indentation, and without the escapes needed only inside HTML.
func writeJSON(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// orEmpty makes a missing list print as [] instead of null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
