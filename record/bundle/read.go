// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
	"weir/record"
)

const formatFamily = "weir-bundle/"

// Files of a bundle and their maximum sizes, because bundles come from other people.
var (
	sumsFile     = infile.Kind{What: "bundle", Most: 1 << 20, Name: tryAgain, Larger: tryAgain}
	documentFile = infile.Kind{What: "bundle", Most: 16 << 20, Name: tryAgain, Larger: tryAgain}
	dataFile     = infile.Kind{What: "bundle", Most: 512 << 20, Name: tryAgain, Larger: tryAgain}
)

// maxObjects bounds the memory of a JSON document, in which {} stands for a structure of some
// hundred bytes.
const (
	maxObjects  = 500_000
	maxDocument = 64 << 20
)

const tryAgain = "copy the bundle again as a whole, or measure again"

// Read reads the bundle in dir. Errors name the file and have advice.
func Read(dir string) (*record.Bundle, error) {
	manifest, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	b := &record.Bundle{Manifest: *manifest}
	f := folder{dir: dir}
	if err := f.open(); err != nil {
		return nil, err
	}
	if _, err := f.read(ManifestFile); err != nil {
		return nil, err
	}
	if b.Samples, err = readTable(f, SamplesFile, readSamples); err != nil {
		return nil, err
	}
	if b.Points, err = readTable(f, SeriesFile, readPoints); err != nil {
		return nil, err
	}
	if b.Distributions, err = readTable(f, DistributionsFile, readDistributions); err != nil {
		return nil, err
	}
	if b.Verdicts, err = readList[record.Verdict](f, VerdictsFile); err != nil {
		return nil, err
	}
	if b.Tables, err = readList[record.Table](f, TablesFile); err != nil {
		return nil, err
	}
	if b.Figures, err = readList[record.Figure](f, FiguresFile); err != nil {
		return nil, err
	}
	if _, listed := f.sums[ProofsFile]; listed { // older bundles have none
		if b.Proofs, err = readList[record.Proof](f, ProofsFile); err != nil {
			return nil, err
		}
	}
	return b, f.checkRest()
}

// read lists the files with sums checked during the read.
var read = []string{ManifestFile, SamplesFile, SeriesFile, DistributionsFile, VerdictsFile, TablesFile, FiguresFile, ProofsFile}

// folder reads the files of a bundle and checks their sums.
type folder struct {
	dir  string
	sums sums
}

func (f *folder) open() error {
	path := filepath.Join(f.dir, SumsFile)
	text, err := sumsFile.Read(path)
	if err != nil {
		return explainRead(err, path)
	}
	if f.sums, err = readSums(text); err != nil {
		return damaged(path, err)
	}
	return nil
}

func (f *folder) read(name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	content, err := dataFile.Read(path)
	if err != nil {
		return nil, explainRead(err, path)
	}
	if err := f.sums.check(name, content); err != nil {
		return nil, damaged(path, err)
	}
	return content, nil
}

// checkRest checks the files that only people read: tables, reports, plots. Missing files are
// allowed.
func (f *folder) checkRest() error {
	for _, name := range slices.Sorted(maps.Keys(f.sums)) {
		if slices.Contains(read, name) || !filepath.IsLocal(name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(f.dir, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := f.read(name); err != nil {
			return err
		}
	}
	return nil
}

// ReadManifest reads only the manifest, and so quickly reports whether dir is a readable bundle.
func ReadManifest(dir string) (*record.Manifest, error) {
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Usage, "check the name; a bundle is the folder that --out named", "bundle %s does not exist", dir)
	} else if err == nil && !info.IsDir() {
		return nil, fault.New(fault.Usage, "give the folder that holds "+ManifestFile, "bundle %s is a file, not a folder", dir)
	}
	path := filepath.Join(dir, ManifestFile)
	text, err := documentFile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Usage, "give the folder that holds "+ManifestFile, "%s is not a bundle: it has no %s", dir, ManifestFile)
	}
	if err != nil {
		return nil, explainRead(err, path)
	}
	var manifest record.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, damaged(path, err)
	}
	switch {
	case manifest.Format == record.FormatBundle:
		return &manifest, nil
	case strings.HasPrefix(manifest.Format, formatFamily):
		return nil, fault.New(fault.Usage, "use a newer version of weir", "bundle %s has the format %q; this version reads %q",
			dir, manifest.Format, record.FormatBundle)
	}
	return nil, fault.New(fault.Usage, "give the folder that --out named", "%s is not a bundle: %s has the format %q",
		dir, ManifestFile, manifest.Format)
}

// readTable reads one Parquet file of the bundle.
func readTable[T any](f folder, name string, read func([]byte) ([]T, error)) ([]T, error) {
	content, err := f.read(name)
	if err != nil {
		return nil, err
	}
	items, err := read(content)
	if err != nil {
		return nil, damaged(filepath.Join(f.dir, name), err)
	}
	return items, nil
}

// readList reads one JSON file of the bundle. An empty list is nil.
func readList[T any](f folder, name string) ([]T, error) {
	content, err := f.read(name)
	if err != nil {
		return nil, err
	}
	if bytes.Count(content, []byte("{")) > maxObjects || len(content) > maxDocument {
		return nil, damaged(filepath.Join(f.dir, name), errExpands)
	}
	var items []T
	if err := json.Unmarshal(content, &items); err != nil {
		return nil, damaged(filepath.Join(f.dir, name), err)
	}
	if len(items) == 0 {
		return nil, nil
	}
	return items, nil
}

func explainRead(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Usage, tryAgain, "bundle is not complete: %s is missing", path)
	}
	return err // with advice
}

func damaged(path string, err error) error {
	return fault.New(fault.Usage, tryAgain, "%s is damaged, cut off or was changed: %w", path, err)
}
