package httpapi

import "seatflow/internal/wording"

// Reasons of the transport itself; callers see them like the others.
const (
	reasonMalformed  = wording.ReasonMalformed
	reasonTooLarge   = wording.ReasonTooLarge
	reasonMediaType  = wording.ReasonMediaType
	reasonMethod     = wording.ReasonMethod
	reasonStreams    = wording.ReasonStreams
	reasonOff        = wording.ReasonOff
	reasonUnfinished = wording.ReasonUnfinished
	reasonRole       = wording.ReasonRole
	reasonIncomplete = wording.ReasonIncomplete
	reasonFormat     = wording.ReasonFormat
)

// lang is a language that callers are answered in.
type lang = wording.Lang

// The languages.
const (
	english   = wording.English
	chinese   = wording.Chinese
	languages = wording.Languages
)
