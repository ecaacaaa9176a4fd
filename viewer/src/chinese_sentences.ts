// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Sentences that the server, or a file, says in English. `{}` stands for what a sentence is about, in the same order.

type Pair = [english: string, chinese: string];

// ---- why a node has no counterpart: see cpp/src/graph/unmatched_reason.cpp

const NO_COUNTERPART: Pair[] = [
  ["the mapping leads to no node of the other run", "映射没有指向另一侧的任何节点"],
  ["the target has no node of this name", "调试侧没有此名称的节点"],
  ["the reference has no node of this name", "标杆侧没有此名称的节点"],
  ["in the other run it is in {}", "在另一侧它位于 {} 中"],
  ["input {} is {} here and {} in the other run", "输入 {} 在本侧为 {},在另一侧为 {}"],
  ["output {} is {} here and {} in the other run", "输出 {} 在本侧为 {},在另一侧为 {}"],
  ["input {} has the shape {} here and {} in the other run", "输入 {} 的形状在本侧为 {},在另一侧为 {}"],
  ["output {} has the shape {} here and {} in the other run", "输出 {} 的形状在本侧为 {},在另一侧为 {}"],
  ["{} inputs here, {} in the other run", "本侧有 {} 个输入,另一侧有 {} 个"],
  ["{} outputs here, {} in the other run", "本侧有 {} 个输出,另一侧有 {} 个"],
  ["its module has no match, or fewer such calls in the other run", "其所在模块未匹配,或在另一侧此类调用较少"],
  ["a module around it has another place in the other run", "其外层模块在另一侧位于别处"],
];

// ---- how a node was merged of several ranks: see cpp/src/graph/merge

const MERGED: Pair[] = [
  ["This data is the merged data after {}, and the data is merged from rank {}.", "该数据经 {} 合并而成,来自卡 {}。"],
  ["The Max value merging method for {} is: {}", "{} 的最大值的合并方法:{}"],
  ["The Min value merging method for {} is: {}", "{} 的最小值的合并方法:{}"],
  ["The Mean value merging method for {} is: {}", "{} 的平均值的合并方法:{}"],
  ["The Norm value merging method for {} is: {}", "{} 的范数的合并方法:{}"],
  ["The output of this data is merged from {}", "该数据的输出由 {} 合并而成"],
  ["The ranks {} hold different summands of {}, whose statistics cannot be merged; those of the first are shown.", "卡 {} 持有 {} 的不同加数,其统计量无法合并;显示的是第一张卡的统计量。"],
  ["The ranks {} should hold the same {}, but their statistics differ; those of the first are shown.", "卡 {} 应持有相同的 {},但统计量不同;显示的是第一张卡的统计量。"],
  ["The placement {} of {} is not known, so the statistics of the ranks {} are not merged; those of the first are shown.", "放置方式 {} 未知,因此 {} 在卡 {} 上的统计量未合并;显示的是第一张卡的统计量。"],
  ['{} along "{}" of the device mesh', '{}(沿设备网格的“{}”维)'],
  ["device mesh({})", "设备网格 ({})"],
  ["tensor parallelism(TP)", "张量并行 (TP)"],
  ["context parallelism(CP)", "上下文并行 (CP)"],
  ["expert parallelism(EP)", "专家并行 (EP)"],
];

// ---- errors: see python/msprobe/viewer

const ERRORS: Pair[] = [
  ["there is no result file {} in the folder that is shown", "所示文件夹中没有结果文件 {}"],
  ["this file has no step {} with a rank {}", "该文件的步 {} 中没有卡 {}"],
  ["there is no node {} on this side", "该侧没有节点 {}"],
  ["there is no dump {} in the folder that is shown", "所示文件夹中没有 dump 数据 {}"],
  ["a graph is being made: wait until it is ready", "正在生成图:请等待完成"],
  ["the graph of {} could not be made: {}", "无法生成 {} 的图:{}"],
  ["see what msprobe graph said above", "原因见上方 msprobe graph 的输出"],
  ["{} does not exist; expected a dump", "{} 不存在;应为 dump 数据"],
  ["{}: expected a file called dump.json or debug.json, or a folder with one", "{}:应为名为 dump.json 或 debug.json 的文件,或含有此类文件的文件夹"],
  ["{}: expected dump.json or debug.json, or folders rank{N} or step{N} in it", "{}:其中应有 dump.json 或 debug.json,或 rank{N}、step{N} 文件夹"],
  ["{} has no counterpart", "{} 没有对应节点"],
  ["there is nothing to undo", "没有可撤销的操作"],
  ["there is nothing to redo", "没有可重做的操作"],
  ["the target has no node {}", "调试侧没有节点 {}"],
  ["the reference has no node {}", "标杆侧没有节点 {}"],
  ["{} and {}: one is a module, the other a call", "{} 与 {}:一个是模块,另一个是 API 调用"],
  ["expected at most {} matches by hand", "手动匹配最多 {} 个"],
  ["this .vis.config is no JSON: {}", "该 .vis.config 不是 JSON:{}"],
  ["this .vis.config holds no object of names: expected target node -> reference node", "该 .vis.config 的内容不是名称对象:应为 调试侧节点 -> 标杆侧节点"],
  ["this .vis.config holds more than {} pairs", "该 .vis.config 超过 {} 对"],
  ["this .vis.config holds a name with half a character: expected Unicode text", "该 .vis.config 中有名称含半个字符:应为 Unicode 文本"],
  ["own data: expected a JSON object, node -> number, with up to {} members", "自有数据:应为 JSON 对象(节点 -> 数值),最多 {} 项"],
  ["own data: none of its members is a number", "自有数据:没有任何一项是数值"],
  ["own data: this is no JSON: {}", "自有数据不是 JSON:{}"],
  ["this is no regular expression: {}", "这不是正则表达式:{}"],
  ["the search with this regular expression failed", "使用该正则表达式的搜索失败"],
  ["this regular expression takes more than {} s", "该正则表达式的搜索超过 {} 秒"],
  ["a search text of more than {} characters", "搜索文本超过 {} 个字符"],
  ["bounds: expected up to nine finite numbers", "级别界限:最多九个有限的数"],
  ["cannot read {}: {}", "无法读取 {}:{}"],
  ["cannot listen on {}, port {}: {}", "无法在 {} 的端口 {} 上监听:{}"],
  ["{} is empty: the program that writes it has not finished, or was ended", "{} 是空文件:写入它的程序尚未完成或已被终止"],
  ["{} is not a SQLite database, so it is not the result of a graph comparison", "{} 不是 SQLite 数据库,因此不是图比对的结果"],
  ["{} has no table {}: it is not the result of a graph comparison, or the program that writes it has not finished", "{} 中没有表 {}:它不是图比对的结果,或写入它的程序尚未完成"],
  ["{}: the table {} has no column {}", "{}:表 {} 没有列 {}"],
  ["{}: the table tb_config is empty: the program that writes it has not finished", "{}:表 tb_config 为空:写入它的程序尚未完成"],
  ["{} is being written (a log lies beside it): open it when that is finished", "{} 正在写入(旁边有日志文件):请在完成后打开"],
  ["{}: a question took too long and was ended", "{}:查询耗时过长,已终止"],
  ["{} cannot be read: {}. Is it being written?", "无法读取 {}:{}。它是否正在写入?"],
  ["{}: the file is damaged: {}. Make it again, or open another copy", "{}:文件已损坏:{}。请重新生成,或打开另一份副本"],
  ["{} is damaged: {}. Make it again, or open another copy", "{} 已损坏:{}。请重新生成,或打开另一份副本"],
  ["{} is damaged: {}", "{} 已损坏:{}"],
  ["cannot write ({}) {}: {}", "无法写入({}){}:{}"],
  ["the values of this graph cannot be read: {}", "无法读取该图的数值:{}"],
  ["the process ended", "进程已结束"],
  ["the token is missing: open the address that was printed", "缺少令牌:请打开启动时打印的地址"],
  ["the viewer failed to answer; where it was started it has written why", "查看器未能应答;原因已写入其启动处的输出"],
  ["only the page of this server may ask", "只有该服务的页面可以查询"],
  ["this server does not answer to this name: see msprobe view --host", "该服务不响应此名称:参见 msprobe view --host"],
  ["there is nothing at this address", "该地址没有内容"],
  ["there is no question {}", "没有名为 {} 的查询"],
  ["expected a body below {} MB", "请求内容应小于 {} MB"],
  ["expected a number of bytes in the header Content-Length", "请求头 Content-Length 应为字节数"],
  ["expected the name or address of a host in the header Host", "请求头 Host 应为主机名或地址"],
  ["expected a JSON object", "应为 JSON 对象"],
  ["the viewer answered with status {}", "查看器返回状态 {}"],
  ["sort: expected one of {}, found {}", "排序:应为 {} 之一,实际为 {}"],
  ["only: expected one of {}, found {}", "筛选:应为 {} 之一,实际为 {}"],
  ["search in: expected name, regex, shape or stack, found {}", "搜索范围:应为 name、regex、shape 或 stack,实际为 {}"],
  ["colour by: expected index, overflow, a difference or a metric, found {}", "着色:应为 index、overflow、差异或指标,实际为 {}"],
  ["do: expected list, match, cancel, undo, redo, load or save, found {}", "do:应为 list、match、cancel、undo、redo、load 或 save,实际为 {}"],
  ["workspace: expected up to 16 small letters and digits", "workspace:应为最多 16 个小写字母和数字"],
  ["{}: expected a whole number, found {}", "{}:应为整数,实际为 {}"],
  ["{}: expected a table {}, found a {}", "{}:应为表 {},实际为 {}"],
  ["{}: expected {}, found {}", "{}:应为 {},实际为 {}"],
  ["This node is not part of the exported page.", "导出的页面中不包含该节点。"],
  ["This is not possible in an exported page.", "导出的页面无法执行此操作。"],
];

// ---- what stands in a gap of another sentence: see python/msprobe/viewer/members.py, and what Python and SQLite say

const GAPS: Pair[] = [
  ["none", "无"],
  ["nothing", "无"],
  ["another shape", "另一种形状"],
  ["another dtype", "另一种数据类型"],
  ["(the model)", "(整个模型)"],
  ["0 or 1", "0 或 1"],
  ["[side, name] of a node", "节点的 [side, name]"],
  ["an object with `by`", "含 `by` 的对象"],
  ["up to nine finite numbers", "最多九个有限的数"],
  ["up to 16 small letters and digits", "最多 16 个小写字母和数字"],
  ["a whole number", "整数"],
  ["lists of whole numbers", "整数列表"],
  ["a text of whole characters", "由完整字符组成的文本"],
  ["a text", "文本"],
  ["true or false", "true 或 false"],
  ["a list", "列表"],
  ["No such file or directory", "没有这个文件或文件夹"],
  ["Permission denied", "没有权限"],
  ["Is a directory", "这是一个文件夹"],
  ["Input/output error", "输入/输出错误"],
  ["database disk image is malformed", "数据库内容已损坏"],
  ["file is not a database", "文件不是数据库"],
  ["disk I/O error", "磁盘读写错误"],
  ["database or disk is full", "数据库或磁盘已满"],
  ["No space left on device", "磁盘空间不足"],
  ["unable to open database file", "无法打开数据库文件"],
  ["no such table: {}", "没有表 {}"],
  ["no such column: {}", "没有列 {}"],
  ["Expecting value: line {} column {} (char {})", "缺少值:第 {} 行第 {} 列(第 {} 个字符)"],
  ["Expecting property name enclosed in double quotes: line {} column {} (char {})", "缺少双引号中的名称:第 {} 行第 {} 列(第 {} 个字符)"],
  ["Expecting ',' delimiter: line {} column {} (char {})", "缺少逗号:第 {} 行第 {} 列(第 {} 个字符)"],
  ["Expecting ':' delimiter: line {} column {} (char {})", "缺少冒号:第 {} 行第 {} 列(第 {} 个字符)"],
  ["Unterminated string starting at: line {} column {} (char {})", "字符串没有结束:始于第 {} 行第 {} 列(第 {} 个字符)"],
  ["Extra data: line {} column {} (char {})", "多余的内容:第 {} 行第 {} 列(第 {} 个字符)"],
  ["unterminated character set at position {}", "字符集没有结束:位置 {}"],
  ["missing ), unterminated subpattern at position {}", "缺少 ):位置 {} 的子模式没有结束"],
  ["unbalanced parenthesis at position {}", "括号不成对:位置 {}"],
  ["nothing to repeat at position {}", "没有可重复的内容:位置 {}"],
  ["multiple repeat at position {}", "连续的重复符号:位置 {}"],
  ["bad escape (end of pattern) at position {}", "反斜杠后没有字符:位置 {}"],
  ["bad escape {} at position {}", "无效的转义 {}:位置 {}"],
  ["bad character range {} at position {}", "无效的字符范围 {}:位置 {}"],
];

const patterns = (pairs: Pair[]): [RegExp, string][] =>
  pairs.map(([english, chinese]) => [new RegExp(`^${english.split("{}").map(literal).join("(.*?)")}$`, "s"), chinese]);
const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const sentences = patterns([...NO_COUNTERPART, ...MERGED, ...ERRORS]);
const gaps = patterns([...GAPS, ...MERGED, ...ERRORS]);

/** The sentence in Chinese; as it is where it is not known. */
export function inChinese(sentence: string): string {
  return filled(sentences, sentence) ?? sentence;
}

function filled(known: [RegExp, string][], sentence: string): string | undefined {
  for (const [pattern, chinese] of known) {
    const found = pattern.exec(sentence);
    if (found) return chinese.split("{}").reduce((text, part, at) => text + gapInChinese(found[at]!) + part);
  }
  return undefined;
}

const gapInChinese = (text: string): string => filled(gaps, text) ?? text;
