// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Sentences that the server, or a file, says in English. `{}` stands for what a sentence is about, in the same order.

type Pair = [english: string, chinese: string];

// ---- findings of a file: "KIND NAME in MODULE: REASON", see python/msprobe/compare/pair_walk.py

const KINDS: Record<string, string> = {
  "input data": "输入数据", weight: "权重", buffer: "缓冲区", argument: "参数", "module attribute": "模块属性", operator: "算子",
  "missing call": "缺少的调用", "extra call": "多出的调用", gradient: "梯度", reduction: "归约", clipping: "梯度裁剪",
  "optimizer setting": "优化器设置", "optimizer state": "优化器状态", randomness: "随机性",
};

const REASONS: Pair[] = [
  ["only the reference calls {}", "只有标杆侧调用了 {}"],
  ["only the run under test calls {}", "只有调试侧调用了 {}"],
  ["what goes into {} agrees, {} does not (a random operator)", "{} 的输入一致,而 {} 不一致(随机算子)"],
  ["what goes into {} agrees, {} does not", "{} 的输入一致,而 {} 不一致"],
  ["{} differs {} times more than what goes in (a random operator)", "{} 的差异是其输入的 {} 倍(随机算子)"],
  ["{} differs {} times more than what goes in", "{} 的差异是其输入的 {} 倍"],
  ["{} differs, and what it is made of does not explain it", "{} 有差异,其来源无法解释"],
  ["{} differs, and no recorded call made the difference", "{} 有差异,没有记录到产生该差异的调用"],
  ["parameter {} of {} differs", "参数 {}(属于 {})有差异"],
  ["{}, the first that goes into the model, differs", "进入模型的第一个输入 {} 有差异"],
  ["{} is {}, in the reference {}", "{} 为 {},标杆侧为 {}"],
];

// ---- why a node has no counterpart: see cpp/src/graph/unmatched_reason.cpp

const NO_COUNTERPART: Pair[] = [
  ["the mapping leads to no node of the other run", "映射没有指向另一侧的任何节点"],
  ["the run under test has no node of this name", "调试侧没有此名称的节点"],
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

// ---- errors: see python/msprobe/viewer

const ERRORS: Pair[] = [
  ["there is no result file {} in the folder that is shown", "所示文件夹中没有结果文件 {}"],
  ["this file has no step {} with a rank {}", "该文件的步 {} 中没有卡 {}"],
  ["there is no node {} on this side", "该侧没有节点 {}"],
  ["there is no dump {} in the folder that is shown", "所示文件夹中没有 dump 数据 {}"],
  ["a graph is being made: wait until it is ready", "正在生成图:请等待完成"],
  ["the graph of {} could not be made: {}", "无法生成 {} 的图:{}"],
  ["{} has no counterpart", "{} 没有对应节点"],
  ["there is nothing to undo", "没有可撤销的操作"],
  ["there is nothing to redo", "没有可重做的操作"],
  ["the target has no node {}", "调试侧没有节点 {}"],
  ["the golden has no node {}", "标杆侧没有节点 {}"],
  ["{} and {}: one is a module, the other a call", "{} 与 {}:一个是模块,另一个是 API 调用"],
  ["expected at most {} matches by hand", "手动匹配最多 {} 个"],
  ["this .vis.config is no JSON: {}", "该 .vis.config 不是 JSON:{}"],
  ["this .vis.config holds no object of names: expected target node -> golden node", "该 .vis.config 的内容不是名称对象:应为 调试侧节点 -> 标杆侧节点"],
  ["this .vis.config holds more than {} pairs", "该 .vis.config 超过 {} 对"],
  ["own data: expected a JSON object, node -> number, with up to {} members", "自有数据:应为 JSON 对象(节点 -> 数值),最多 {} 项"],
  ["own data: none of its members is a number", "自有数据:没有任何一项是数值"],
  ["this is no regular expression: {}", "这不是正则表达式:{}"],
  ["the search with this regular expression failed", "使用该正则表达式的搜索失败"],
  ["a search text of more than 1000 characters", "搜索文本超过 1000 个字符"],
  ["bounds: expected up to nine finite numbers", "级别界限:最多九个有限的数"],
  ["cannot read {}: {}", "无法读取 {}:{}"],
  ["{} is empty: the program that writes it has not finished, or was ended", "{} 是空文件:写入它的程序尚未完成或已被终止"],
  ["{} is not a SQLite database, so it is not the result of a graph comparison", "{} 不是 SQLite 数据库,因此不是图比对的结果"],
  ["{} has no table {}: it is not the result of a graph comparison, or the program that writes it has not finished", "{} 中没有表 {}:它不是图比对的结果,或写入它的程序尚未完成"],
  ["{}: the table {} has no column {}", "{}:表 {} 没有列 {}"],
  ["{}: the table tb_config is empty: the program that writes it has not finished", "{}:表 tb_config 为空:写入它的程序尚未完成"],
  ["{} is being written (a log lies beside it): open it when that is finished", "{} 正在写入(旁边有日志文件):请在完成后打开"],
  ["{}: a question took too long and was ended", "{}:查询耗时过长,已终止"],
  ["{} cannot be read: {}. Is it being written?", "无法读取 {}:{}。它是否正在写入?"],
  ["{} is damaged: {}. Make it again, or open another copy", "{} 已损坏:{}。请重新生成,或打开另一份副本"],
  ["{} is damaged: {}", "{} 已损坏:{}"],
  ["the token is missing: open the address that was printed", "缺少令牌:请打开启动时打印的地址"],
  ["the viewer failed to answer; where it was started it has written why", "查看器未能应答;原因已写入其启动处的输出"],
  ["{}: expected {}, found {}", "{}:应为 {},实际为 {}"],
  ["This node is not part of the exported page.", "导出的页面中不包含该节点。"],
  ["This is not possible in an exported page.", "导出的页面无法执行此操作。"],
];

const patterns = (pairs: Pair[]): [RegExp, string][] =>
  pairs.map(([english, chinese]) => [new RegExp(`^${english.split("{}").map(literal).join("(.*?)")}$`, "s"), chinese]);
const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const reasons = patterns(REASONS);
const sentences = patterns([...NO_COUNTERPART, ...ERRORS]);

/** The sentence in Chinese; as it is where it is not known. */
export function inChinese(sentence: string): string {
  return findingInChinese(sentence) ?? filled(sentences, sentence) ?? sentence;
}

function findingInChinese(sentence: string): string | undefined {
  const parts = /^([a-z ]+?) (\S+)(?: in (\S+))?: (.*)$/s.exec(sentence);
  const [, kind, name, module, reason] = parts ?? [];
  if (!kind || !Object.hasOwn(KINDS, kind)) return undefined;
  return `${KINDS[kind]} ${name}${module ? `(位于 ${module})` : ""}:${filled(reasons, reason!) ?? reason}`;
}

function filled(known: [RegExp, string][], sentence: string): string | undefined {
  for (const [pattern, chinese] of known) {
    const found = pattern.exec(sentence);
    if (found) return chinese.split("{}").reduce((text, part, at) => text + found[at] + part);
  }
  return undefined;
}
