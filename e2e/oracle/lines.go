package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// eachLine answers every line of the input with one line of JSON, in order, evaluating up to
// `workers` lines at once. Each answer is flushed as soon as it and its predecessors are ready, so
// that a caller may wait for an answer before it sends the next line.
func eachLine(in io.Reader, out io.Writer, workers int, handle func([]byte) any) error {
	pending := make(chan chan []byte, max(workers, 1))
	failed := make(chan error, 1)
	go func() {
		failed <- writeInOrder(out, pending)
	}()

	reader := bufio.NewReaderSize(in, 1<<20)
	slots := make(chan struct{}, max(workers, 1))
	var readErr error
	for readErr == nil {
		var line []byte
		line, readErr = reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		done := make(chan []byte, 1)
		slots <- struct{}{}
		pending <- done
		go func() {
			defer func() { <-slots }()
			done <- encode(handle(line))
		}()
	}
	close(pending)
	if err := <-failed; err != nil {
		return err
	}
	if readErr != io.EOF {
		return readErr
	}
	return nil
}

func writeInOrder(out io.Writer, pending <-chan chan []byte) error {
	writer := bufio.NewWriter(out)
	var failure error
	for done := range pending {
		line := <-done
		if failure != nil {
			continue // keep draining, so that the reader never blocks
		}
		if _, failure = writer.Write(line); failure == nil {
			failure = writer.Flush()
		}
	}
	return failure
}

func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		buffer.Reset()
		_ = encoder.Encode(Answer{Pods: []PodAnswer{}, Error: err.Error()})
	}
	return buffer.Bytes()
}
