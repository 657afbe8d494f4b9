package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"seatflow"
	"seatflow/internal/app"
	"seatflow/internal/seatplan"
)

// planStore is where plans are kept: a data folder of our own, or the server
// that has it.
type planStore interface {
	halls(ctx context.Context) ([]seatflow.Hall, error)
	createHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error)
	publish(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document, progress func(done, total int)) (seatflow.PlanVersion, int, error)
	// export writes a plan; version 0 is the latest.
	export(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) ([]byte, error)
}

// withPlans calls f with the plans of a data folder, through its server when
// one runs on it, or with those in facts that nodes share.
func withPlans(ctx context.Context, dir, facts string, f func(ctx context.Context, s planStore) error) error {
	if facts != "" {
		d, err := app.OpenDeployment(ctx, facts, "")
		if err != nil {
			return err
		}
		return errors.Join(explain(f(ctx, folder{d.Catalog})), d.Close())
	}
	if url, ok := app.DataServer(dir); ok {
		return viaServer(ctx, dir, url, f)
	}
	catalog, data, err := app.OpenCatalog(ctx, dir)
	var used *app.InUseError
	if errors.As(err, &used) && used.URL != "" {
		return viaServer(ctx, dir, used.URL, f) // it has started this moment
	}
	if err != nil {
		return err
	}
	err = explain(f(ctx, folder{catalog}))
	return errors.Join(err, data.Close())
}

func viaServer(ctx context.Context, dir, url string, f func(ctx context.Context, s planStore) error) error {
	token, err := app.MintToken(dir, "plan-tool", seatflow.RoleAdmin, time.Hour)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 5 * time.Minute}}
	defer client.CloseIdleConnections()
	return f(ctx, server{client, strings.TrimSuffix(url, "/"), token})
}

// explain puts what a caller may see of an error into words.
func explain(err error) error {
	var e *seatflow.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == seatflow.CodeNotFound:
		return errors.New("there is no such hall or plan version")
	case e.Reason == seatflow.ReasonField && len(e.Args) > 0:
		return fmt.Errorf("%s %v", e.Field, e.Args[0])
	case len(e.Faults) > 0:
		return fmt.Errorf("the plan has faults:\n%s", strings.Join(e.Faults, "\n"))
	}
	return err
}

// folder is a data folder of our own. Its field is what *catalog.Service does.
type folder struct {
	catalog interface {
		Halls(ctx context.Context, after seatflow.HallID, limit int) ([]seatflow.Hall, error)
		CreateHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error)
		ImportPlan(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document) (*seatflow.Plan, error)
		Plan(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) (*seatflow.Plan, error)
	}
}

const hallPage = 100

func (f folder) halls(ctx context.Context) ([]seatflow.Hall, error) {
	var all []seatflow.Hall
	for after := seatflow.HallID(0); ; after = all[len(all)-1].ID {
		page, err := f.catalog.Halls(ctx, after, hallPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < hallPage {
			return all, nil
		}
	}
}

func (f folder) createHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error) {
	return f.catalog.CreateHall(ctx, hall)
}

func (f folder) publish(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document, _ func(done, total int)) (seatflow.PlanVersion, int, error) {
	plan, err := f.catalog.ImportPlan(ctx, hall, doc)
	if err != nil {
		return 0, 0, err
	}
	return plan.Version, len(plan.Seats), nil
}

func (f folder) export(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) ([]byte, error) {
	plan, err := f.catalog.Plan(ctx, hall, version)
	if err != nil {
		return nil, err
	}
	return seatplan.Export(plan)
}

// server is the server that has the data folder.
type server struct {
	client *http.Client
	url    string
	token  string
}

// maxAnswer bounds what is read of an answer, as a plan document is bounded.
const maxAnswer = seatplan.MaxBytes

// call asks the server and reads the whole answer; one of another status is an
// error with what the problem document says.
func (s server) call(ctx context.Context, method, path string, body io.Reader, status int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r, ok := body.(*sent); ok {
		req.ContentLength = int64(r.total)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the server on this data folder: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the server's answer: %w", err)
	case len(answer) > maxAnswer:
		return nil, errors.New("the server's answer is too long")
	case resp.StatusCode == status:
		return answer, nil
	}
	var problem struct {
		Detail string   `json:"detail"`
		Code   int      `json:"code"`
		Faults []string `json:"faults"`
	}
	if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" {
		return nil, fmt.Errorf("the server answered %s", resp.Status)
	}
	text := fmt.Sprintf("the server refused: %s (%d)", problem.Detail, problem.Code)
	for _, f := range problem.Faults {
		text += "\n" + f
	}
	return nil, errors.New(text)
}

type hallAnswer struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Zone string `json:"zone"`
}

func (h hallAnswer) hall() seatflow.Hall {
	return seatflow.Hall{ID: seatflow.HallID(h.ID), Name: h.Name, Zone: h.Zone}
}

func (s server) halls(ctx context.Context) ([]seatflow.Hall, error) {
	var all []seatflow.Hall
	for cursor := ""; ; {
		answer, err := s.call(ctx, http.MethodGet, "/api/v1/admin/halls?limit="+strconv.Itoa(hallPage)+cursor, nil, http.StatusOK)
		if err != nil {
			return nil, err
		}
		var page struct {
			Halls []hallAnswer `json:"halls"`
			Next  string       `json:"next"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, fmt.Errorf("the server's list of halls: %w", err)
		}
		for _, h := range page.Halls {
			all = append(all, h.hall())
		}
		if page.Next == "" || len(page.Halls) == 0 {
			return all, nil
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
}

func (s server) createHall(ctx context.Context, hall seatflow.Hall) (seatflow.Hall, error) {
	body, err := json.Marshal(map[string]string{"name": hall.Name, "zone": hall.Zone})
	if err != nil {
		return hall, err
	}
	answer, err := s.call(ctx, http.MethodPost, "/api/v1/admin/halls", bytes.NewReader(body), http.StatusCreated)
	if err != nil {
		return hall, err
	}
	var made hallAnswer
	if err := json.Unmarshal(answer, &made); err != nil {
		return hall, fmt.Errorf("the server's hall: %w", err)
	}
	return made.hall(), nil
}

// publish sends the document as it was checked here: its guids are told apart
// already.
func (s server) publish(ctx context.Context, hall seatflow.HallID, doc *seatplan.Document, progress func(done, total int)) (seatflow.PlanVersion, int, error) {
	body, err := doc.JSON()
	if err != nil {
		return 0, 0, err
	}
	path := fmt.Sprintf("/api/v1/admin/halls/%d/plans", hall)
	answer, err := s.call(ctx, http.MethodPost, path, &sent{bytes.NewReader(body), len(body), progress}, http.StatusCreated)
	if err != nil {
		return 0, 0, err
	}
	var made struct {
		Version int32 `json:"version"`
		Seats   int   `json:"seats"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return 0, 0, fmt.Errorf("the server's plan: %w", err)
	}
	return seatflow.PlanVersion(made.Version), made.Seats, nil
}

func (s server) export(ctx context.Context, hall seatflow.HallID, version seatflow.PlanVersion) ([]byte, error) {
	return s.call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/admin/halls/%d/plans/%d", hall, version), nil, http.StatusOK)
}

// sent tells how much of a body has been sent.
type sent struct {
	r        *bytes.Reader
	total    int
	progress func(done, total int)
}

// Read implements io.Reader.
func (s *sent) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.progress(s.total-s.r.Len(), s.total)
	return n, err
}
