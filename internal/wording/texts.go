package wording

import "seatflow"

// Reasons of the transports themselves; callers see them like the others.
const (
	ReasonMalformed  seatflow.Reason = "malformed"  // not the JSON that was asked for: Args[0] in English
	ReasonTooLarge   seatflow.Reason = "too_large"  // Args[0]: the most bytes
	ReasonMediaType  seatflow.Reason = "media_type" // Args[0]: the media type that is read
	ReasonMethod     seatflow.Reason = "method"     // Args[0]: the methods that are allowed
	ReasonStreams    seatflow.Reason = "streams"    // too many open streams
	ReasonOff        seatflow.Reason = "off"        // the endpoint is switched off
	ReasonUnfinished seatflow.Reason = "unfinished" // the time for the request ran out
	ReasonRole       seatflow.Reason = "role"       // Args[0]: the role
	ReasonIncomplete seatflow.Reason = "incomplete" // the body ended early
	ReasonFormat     seatflow.Reason = "unreadable" // not a seat plan at all
)

// TransportReasons lists them.
var TransportReasons = [...]seatflow.Reason{
	ReasonMalformed, ReasonTooLarge, ReasonMediaType, ReasonMethod, ReasonStreams, ReasonOff, ReasonUnfinished,
	ReasonRole, ReasonIncomplete, ReasonFormat,
}

// Lang is a language that callers are answered in.
type Lang uint8

// The languages, in the order of the matcher's tags; the first is the default.
const (
	English Lang = iota
	Chinese
	Languages
)

// Tags are the values of Content-Language.
var Tags = [Languages]string{"en", "zh"}

// Text is a sentence in every language. {0} and {1} stand for the error's
// arguments, {field} for its field.
type Text [Languages]string

// Titles name each code.
var Titles = map[seatflow.Code]Text{
	seatflow.CodeInvalid:       {"Invalid request", "请求无效"},
	seatflow.CodeUnauthorized:  {"Not signed in", "未登录"},
	seatflow.CodeForbidden:     {"Not allowed", "无权操作"},
	seatflow.CodeNotFound:      {"Not found", "未找到"},
	seatflow.CodeKeyReused:     {"Idempotency key reused", "幂等键被重复使用"},
	seatflow.CodeInFlight:      {"Still being processed", "仍在处理"},
	seatflow.CodeRateLimited:   {"Too many requests", "请求过于频繁"},
	seatflow.CodeSystem:        {"System error", "系统错误"},
	seatflow.CodeNotReady:      {"Not ready", "暂不可用"},
	seatflow.CodeNoShow:        {"No such show", "场次不存在"},
	seatflow.CodeSeatsTaken:    {"Seats taken", "座位已被占用"},
	seatflow.CodeSlotHeld:      {"Slot already yours", "您已预约该时段"},
	seatflow.CodeOverLimit:     {"Over the purchase limit", "超出限购数量"},
	seatflow.CodeWrongState:    {"Order cannot do this now", "订单当前状态不允许此操作"},
	seatflow.CodeOverDaily:     {"Over the daily limit", "超出每日限额"},
	seatflow.CodeNoRoom:        {"No such room", "房间不存在"},
	seatflow.CodeNotOnSale:     {"Not on sale", "当前不在售"},
	seatflow.CodeSlotStarted:   {"Slot has started", "时段已开始"},
	seatflow.CodeNoSeat:        {"No such seat", "座位不存在"},
	seatflow.CodeSlotSeatTaken: {"Seat taken in this slot", "该时段座位已被占用"},
}

// Details say what a code means when there is no reason that says more.
var Details = map[seatflow.Code]Text{
	seatflow.CodeInvalid:       {"The request is malformed or invalid.", "请求格式有误或内容无效。"},
	seatflow.CodeUnauthorized:  {"A valid bearer token is needed.", "需要有效的 Bearer 令牌。"},
	seatflow.CodeForbidden:     {"Your role does not allow this.", "您的角色不允许此操作。"},
	seatflow.CodeNotFound:      {"It is not there, or it is not yours.", "内容不存在，或不属于您。"},
	seatflow.CodeKeyReused:     {"This idempotency key was used before for another request.", "该幂等键已用于另一个请求。"},
	seatflow.CodeInFlight:      {"A request with this idempotency key is still being processed; try again shortly.", "使用该幂等键的请求仍在处理，请稍后重试。"},
	seatflow.CodeRateLimited:   {"Too many requests; try again after a moment.", "请求过于频繁，请稍后重试。"},
	seatflow.CodeSystem:        {"Something went wrong on our side. Please tell us the trace id.", "系统内部出错，请提供跟踪编号以便排查。"},
	seatflow.CodeNotReady:      {"This cannot be answered just now; try again after a moment.", "暂时无法处理，请稍后重试。"},
	seatflow.CodeNoShow:        {"The show does not exist or is not given.", "场次不存在或已取消。"},
	seatflow.CodeSeatsTaken:    {"At least one of these seats is taken; none was held.", "所选座位中至少有一个已被占用，未锁定任何座位。"},
	seatflow.CodeSlotHeld:      {"You already have a reservation in this slot.", "您在该时段已有预约。"},
	seatflow.CodeOverLimit:     {"That is more than one person may buy.", "超出每人可购买的数量。"},
	seatflow.CodeWrongState:    {"The order is not in a state that allows this.", "订单当前状态不允许此操作。"},
	seatflow.CodeOverDaily:     {"That is more than the limit for one day.", "超出每日限额。"},
	seatflow.CodeNoRoom:        {"The room does not exist or cannot be reserved.", "房间不存在或不可预约。"},
	seatflow.CodeNotOnSale:     {"This show is not on sale now.", "该场次当前不在售票时间内。"},
	seatflow.CodeSlotStarted:   {"The slot has started or is over.", "该时段已开始或已结束。"},
	seatflow.CodeNoSeat:        {"At least one of these seats is not part of this show.", "所选座位中至少有一个不属于该场次。"},
	seatflow.CodeSlotSeatTaken: {"This seat is taken in this slot.", "该座位在此时段已被占用。"},
}

// Reasons say more than the code does.
var Reasons = map[seatflow.Reason]Text{
	seatflow.ReasonField:           {"{field}: {0}", "字段 {field} 无效：{0}"},
	seatflow.ReasonKeyMismatch:     {"The Idempotency-Key header and idempotencyKey in the body differ.", "请求头 Idempotency-Key 与正文中的 idempotencyKey 不一致。"},
	seatflow.ReasonKeyInvalid:      {"An idempotency key has 1 to 64 printable characters.", "幂等键须为 1 至 64 个可打印字符。"},
	seatflow.ReasonNoSeats:         {"Choose at least one seat.", "请至少选择一个座位。"},
	seatflow.ReasonTooManySeats:    {"An order has at most {0} seats.", "每个订单最多 {0} 个座位。"},
	seatflow.ReasonRepeatedSeat:    {"Seat {0} is listed more than once.", "座位 {0} 被重复选择。"},
	seatflow.ReasonNotOnSaleYet:    {"The sale opens at {0}.", "开售时间为 {0}。"},
	seatflow.ReasonSaleOver:        {"The sale of this show is over.", "该场次已停止售票。"},
	seatflow.ReasonOverLimit:       {"The limit is {0} seats per person; you may take {1} more.", "每人限购 {0} 个座位，您还可选 {1} 个。"},
	seatflow.ReasonOrderState:      {"The order is {0}.", "订单当前状态：{0}。"},
	seatflow.ReasonExtendedAlready: {"The order was extended already; that is possible once.", "订单已延长过一次，不能再次延长。"},
	seatflow.ReasonHoldLost:        {"The hold on these seats has ended meanwhile.", "座位的锁定已失效。"},
	seatflow.ReasonRebuilding:      {"The seat map is being rebuilt; try again after a moment.", "座位图正在重建，请稍后重试。"},
	seatflow.ReasonLedgerDown:      {"Orders cannot be recorded just now; try again after a moment.", "暂时无法记录订单，请稍后重试。"},
	seatflow.ReasonOutcomeUnknown:  {"It is not known yet whether this was done. Ask again with the same idempotency key.", "尚不确定操作是否完成，请使用相同的幂等键重试。"},
	seatflow.ReasonBadSignature:    {"The signature is wrong, missing or too old.", "签名错误、缺失或已过期。"},
	seatflow.ReasonNoProvider:      {"There is no payment provider {0}.", "没有名为 {0} 的支付渠道。"},
	seatflow.ReasonPlanFaults:      {"The seat plan has {0} faults.", "座位图文件有 {0} 处错误。"},
	seatflow.ReasonVersion:         {"Someone else has changed it meanwhile; read it again.", "内容已被他人修改，请重新读取。"},

	ReasonMalformed:  {"The body is not the JSON that was expected: {0}.", "正文不是预期的 JSON：{0}。"},
	ReasonTooLarge:   {"The body is larger than {0} bytes.", "正文超过 {0} 字节。"},
	ReasonMediaType:  {"The body must be {0}.", "正文类型必须为 {0}。"},
	ReasonMethod:     {"This path answers to {0} only.", "该路径只支持 {0}。"},
	ReasonStreams:    {"Too many open event streams.", "打开的事件流过多。"},
	ReasonOff:        {"This is switched off here.", "此功能未启用。"},
	ReasonUnfinished: {"The request could not be finished in time; try again after a moment.", "请求未能及时完成，请稍后重试。"},
	ReasonRole:       {"The role {0} does not allow this.", "角色 {0} 不允许此操作。"},
	ReasonIncomplete: {"The body ended before it was complete.", "正文不完整。"},
	ReasonFormat:     {"This is not a seat plan: {0}.", "这不是座位图文件：{0}。"},
}

// OrderStates are the words for an order's states in running text.
var OrderStates = map[string]Text{
	string(seatflow.OrderPending):   {"waiting for payment", "待支付"},
	string(seatflow.OrderPaid):      {"paid", "已支付"},
	string(seatflow.OrderCancelled): {"cancelled", "已取消"},
	string(seatflow.OrderExpired):   {"expired", "已过期"},
	string(seatflow.OrderRefunded):  {"refunded", "已退款"},
	string(seatflow.OrderVoid):      {"void", "已作废"},
	string(seatflow.OrderBlocked):   {"a block of seats", "留座"},
}
