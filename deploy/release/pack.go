package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"time"
)

// entry is a file of an archive.
type entry struct {
	file string
	name string // in the archive
	mode int64
}

// pack writes an archive that depends on nothing but the files' contents,
// names and modes, and on at.
func pack(archive string, entries []entry, at time.Time) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		if err := add(w, e, at); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func add(w *tar.Writer, e entry, at time.Time) error {
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: info.Size(), ModTime: at, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
