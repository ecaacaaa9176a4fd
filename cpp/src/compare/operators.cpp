// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/operators.h"

#include <array>
#include <cctype>
#include <span>
#include <string>
#include <unordered_map>

namespace msprobe::compare {
namespace {

struct Row {
  OperatorTraits traits;
  std::string_view names;  // between blanks
};

constexpr std::array kRows{
    Row{{Growth::kMoving, false, Saved::kNothing},
        "unbind split chunk getitem narrow select cat concat concatenate stack hstack vstack expand expandas "
        "view "
        "viewas reshape flatten unflatten squeeze unsqueeze transpose permute swapaxes movedim t mt "
        "contiguous clone "
        "to type float half bfloat16 double long int bool cpu cuda npu detach copy copyfrom tocopy alias "
        "index "
        "indexselect gather take takealongdim embedding identity repeat repeatinterleave tile broadcastto "
        "roll flip "
        "rot90 pad constantpadnd unfold asstrided diag diagonal tril triu where maskedselect slice setitem "
        "unsafeview tensorsplit unsafesplit split withsizes splitwithsizes lift liftfresh item tolist numpy "
        "pixelshuffle channelshuffle upsamplenearest interpolate"},
    Row{{Growth::kSum, false, Saved::kNothing},
        "add sub rsub neg iadd isub radd sum mean cumsum nansum addn average avgpool1d avgpool2d "
        "avgpool3d "
        "adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d lerp foreachlerp scatteradd indexadd indexput "
        "scatter fold "
        "foreachadd "
        "foreachsub foreachneg allreduce reducescatter reducescattertensor reduce allreducecoalesced "
        "averagepool "
        "segmentreduce embeddingbag"},
    Row{{Growth::kSum, false}, "logsumexp l1loss mseloss smoothl1loss huberloss"},
    Row{{Growth::kElementwise, false},
        "mul imul rmul multiply foreachmul div divide truediv itruediv rtruediv foreachdiv "
        "addcmul "
        "foreachaddcmul rsqrt reciprocal foreachreciprocal "
        "gelu silu swish "
        "quickgelu newgelu gelutanh tanh softplus mish erf erfc glu swiglu npuswiglu silumul hypot atan2 "
        "foreachnorm "
        "linalgvectornorm vectornorm norm"},
    Row{{Growth::kRoot, false}, "sqrt foreachsqrt"},
    Row{{Growth::kPower, false}, "pow ipow rpow foreachpow square"},
    Row{{Growth::kProduct, false, Saved::kFactors},
        "linear matmul imatmul rmatmul mm bmm addmm baddbmm addbmm addmv mv dot vdot inner outer einsum "
        "tensordot "
        "bilinear chainmatmul conv1d conv2d conv3d convolution convtranspose1d convtranspose2d "
        "convtranspose3d conv "
        "convbackward convolutionbackward  kron "
        "multidot scaledmm groupedmm"},
    Row{{Growth::kRecurrent, false}, "lstm gru rnn rnntanh rnnrelu"},
    Row{{Growth::kRecurrent, false, Saved::kFactors}, "lstmcell grucell rnncell rnntanhcell rnnrelucell"},
    Row{{Growth::kScaleFree, false, Saved::kFactors},
        "layernorm nativelayernorm rmsnorm batchnorm nativebatchnorm batchnorm1d batchnorm2d batchnorm3d "
        "syncbatchnorm groupnorm nativegroupnorm instancenorm instancenorm1d instancenorm2d instancenorm3d "
        "normalize "
        "std var stdmean varmean weightnorm spectralnorm localresponsenorm llamarmsnorm"},
    Row{{Growth::kExponential, false},
        "exp exp2 expm1 softmax safesoftmax sigmoid sin cos tan sinh cosh softmin gumbelsoftmax"},
    Row{{Growth::kLogarithm, false},
        "log log2 log10 log1p logsoftmax crossentropy crossentropyloss nllloss kldiv binarycrossentropy "
        "binarycrossentropywithlogits bceloss bcewithlogitsloss logsigmoid"},
    Row{{Growth::kAttention, false},
        "scaleddotproductattention multiheadattention multiheadattentionforward flashattention "
        "scaleddotproductflashattention scaleddotproductefficientattention flexattention npufusionattention"},
    Row{{Growth::kUnknown, true, Saved::kAll, true},
        "max min amax amin topk sort median kthvalue maxpool1d maxpool2d maxpool3d maxpool adaptivemaxpool1d "
        "adaptivemaxpool2d adaptivemaxpool3d"},
    Row{{Growth::kUnknown, true},
        "relu relu6 leakyrelu prelu rrelu threshold hardtanh hardswish hardsigmoid elu selu celu abs clamp "
        "clampmin "
        "clampmax clip maximum minimum fmax fmin argsort softshrink hardshrink "
        "marginrankingloss "
        "maskedfill cummax cummin aminmax sign floor ceil round trunc frac remainder fmod mod floordivide "
        "floordiv "
        "quantizepertensor fakequantize"},
    Row{{Growth::kRandom, false},
        "dropout dropout1d dropout2d dropout3d alphadropout featuredropout nativedropout rand randn randint "
        "randlike "
        "randnlike randintlike randperm bernoulli multinomial normal uniform exponential lognormal cauchy "
        "geometric random "
        "poisson"},
    Row{{Growth::kUpdate, false},
        "addcdiv foreachaddcdiv fusedadam fusedadamw fusedsgd fusedadagrad adam adamw sgd applyadamw"},
};

// Of the letters and digits alone, in small letters.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::unordered_map<std::string_view, OperatorTraits> make_table() {
  std::unordered_map<std::string_view, OperatorTraits> table;
  for (const Row& row : kRows) {
    for (std::string_view rest = row.names; !rest.empty();) {
      const std::size_t end = rest.find(' ');
      table.emplace(rest.substr(0, end), row.traits);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
  return table;
}

}  // namespace

OperatorTraits traits_of(std::string_view name) {
  static const std::unordered_map<std::string_view, OperatorTraits> table = make_table();
  const std::string key = plain(name);
  if (const auto found = table.find(key); found != table.end()) return found->second;
  // Classes of modules are often named after what they are: "LlamaRMSNorm", "ColumnParallelLinear".
  if (key.ends_with("norm")) return {Growth::kScaleFree, false, Saved::kFactors};
  if (key.ends_with("linear")) return {Growth::kProduct, false, Saved::kFactors};
  if (key.ends_with("embedding")) return {Growth::kMoving, false, Saved::kNothing};
  if (key.ends_with("dropout")) return {Growth::kRandom, false};
  return {};
}

}  // namespace msprobe::compare
